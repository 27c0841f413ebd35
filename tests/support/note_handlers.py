"""Handlers that write a note to the shop's database, from a Dishka container."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NewType

from dishka import AsyncContainer, Provider, Scope, make_async_container
from sqlalchemy import Engine, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session

from postroom import EventRegistry
from postroom.publishers.base import Outcome
from postroom.publishers.handlers.publisher import HandlersPublisher
from postroom.record import ClaimedRecord
from tests.support.shop import AccountOpened, Note, outbox

MainAsyncSession = NewType("MainAsyncSession", AsyncSession)


@dataclass
class Diary:
    """What the handlers of a test do besides, and what they leave behind."""

    ran: list[str] = field(default_factory=list)
    sessions: list[Any] = field(default_factory=list)
    afterwards: Callable[[str], None] = lambda name: None
    """Called by a handler that has committed."""


class WriteNote:
    """Writes a note in a transaction of its own, as handlers do that never heard of an outbox."""

    def __init__(self, session: MainAsyncSession, diary: Diary) -> None:
        self.session = session
        self.diary = diary
        diary.sessions.append(session)

    async def handle(self, event: AccountOpened) -> None:
        name = type(self).__name__
        self.diary.ran.append(name)
        async with self.session.begin():
            self.session.add(Note(text=f"{name} {event.email}"))
        self.diary.afterwards(name)


def container_of_handlers(
    engine: AsyncEngine, diary: Diary, *handlers: type[Any], sync_engine: Engine | None = None
) -> AsyncContainer:
    """Make a container that gives each scope a session, and the diary to all."""

    async def session() -> AsyncIterator[MainAsyncSession]:
        async with AsyncSession(engine) as opened:
            yield MainAsyncSession(opened)

    def sync_session() -> Iterator[Session]:
        with Session(sync_engine) as opened:
            yield opened

    provider = Provider(scope=Scope.REQUEST)
    provider.provide(lambda: diary, provides=Diary, scope=Scope.APP)
    provider.provide(session)
    provider.provide(sync_session)
    provider.provide_all(*handlers)
    return make_async_container(provider)


async def publisher_of_handlers(
    engine: AsyncEngine, diary: Diary, *handlers: type[Any], **options: Any
) -> HandlersPublisher:
    """Make a publisher for handlers of AccountOpened, and open it on the shop's outbox."""
    registry = EventRegistry()
    for handler in handlers:
        registry.handles(AccountOpened, name=handler.__name__)(handler)
    container = container_of_handlers(engine, diary, *handlers)
    chosen: dict[str, Any] = {"container": container, "registry": registry, **options}
    publisher = HandlersPublisher(**chosen)
    publisher.use(outbox, engine)
    return publisher


async def one(publisher: HandlersPublisher, record: ClaimedRecord) -> Outcome:
    """Deliver one record."""
    [outcome] = await publisher.publish([record])
    return outcome


async def notes(engine: AsyncEngine) -> list[str]:
    """Give the texts of the notes, sorted."""
    async with engine.connect() as connection:
        return sorted(await connection.scalars(select(Note.text)))
