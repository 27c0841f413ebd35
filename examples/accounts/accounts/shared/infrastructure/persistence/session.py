"""The session of a request or of an event handler, and the transaction in it."""

from sqlalchemy.ext.asyncio import AsyncSession


class MainAsyncSession(AsyncSession):
    """A session of the main database: a type of its own, for there may be others one day."""


class SqlAlchemyUnitOfWork:
    """A `UnitOfWork` over the session that repositories and the event dispatcher write to."""

    def __init__(self, session: MainAsyncSession) -> None:
        self._session = session

    async def commit(self) -> None:
        await self._session.commit()
