"""One engine for the application, one session for each request and each event handler."""

from collections.abc import AsyncIterator

from dishka import Provider, Scope, from_context, provide
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine

from accounts.settings import Settings
from accounts.shared.infrastructure.persistence.session import MainAsyncSession


def timeouts(url: str) -> dict[str, int]:
    """Return the driver's time-outs in seconds. On SQLite, `timeout` is for the write lock.

    Without them, a request waits for ever for a database that does not answer.
    """
    statement = {"command_timeout": 15} if url.startswith("postgresql") else {}
    return {"timeout": 10, **statement}


class PersistenceProvider(Provider):
    """Gives the engine and the sessions of the main database."""

    settings = from_context(Settings, scope=Scope.APP)

    # SQLite needs no BEGIN IMMEDIATE here: a transaction that writes begins with a write.
    @provide(scope=Scope.APP)
    async def engine(self, settings: Settings) -> AsyncIterator[AsyncEngine]:
        engine = create_async_engine(
            settings.database_url,
            hide_parameters=True,
            pool_pre_ping=True,
            connect_args=timeouts(settings.database_url),
        )
        yield engine
        await engine.dispose()

    @provide(scope=Scope.APP)
    def sessions(self, engine: AsyncEngine) -> async_sessionmaker[MainAsyncSession]:
        return async_sessionmaker(engine, class_=MainAsyncSession, expire_on_commit=False)

    @provide(scope=Scope.REQUEST)
    async def session(
        self, sessions: async_sessionmaker[MainAsyncSession]
    ) -> AsyncIterator[MainAsyncSession]:
        async with sessions() as session:
            yield session
