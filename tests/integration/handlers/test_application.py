"""A whole application: a request saves an account, a relay in the lifespan runs its handlers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, NewType

import pytest
from dishka import AsyncContainer, Provider, Scope, make_async_container
from dishka.integrations.fastapi import FromDishka, inject, setup_dishka
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
)

from postroom import (
    EventDispatcher,
    EventRegistry,
    HandlersPublisher,
    OutboxRecord,
    OutboxRelay,
    RetrySchedule,
)
from postroom.integrations.dishka import EventHandlerProvider, OutboxProvider, check_handlers
from postroom.integrations.fastapi import relay_lifespan
from tests.support.note_handlers import notes
from tests.support.shop import Account, AccountOpened, Note, outbox
from tests.support.waiting import eventually

MainAsyncSession = NewType("MainAsyncSession", AsyncSession)


class Unit:
    """A unit of work, as hexagonal applications have it."""

    def __init__(self, session: MainAsyncSession) -> None:
        self.session = session


class Welcome:
    """A handler with a unit of work of its own; it fails as often as it is told to."""

    failures = 0
    sessions: list[AsyncSession]

    def __init__(self, unit: Unit) -> None:
        self.unit = unit

    async def handle(self, event: AccountOpened) -> None:
        type(self).sessions.append(self.unit.session)
        self.unit.session.add(Note(text=f"{type(self).__name__} {event.email}"))
        await self.unit.session.flush()
        if type(self).failures:
            type(self).failures -= 1
            raise RuntimeError("the printer is out of paper")
        await self.unit.session.commit()


class Greet(Welcome):
    pass


@pytest.fixture
def registry() -> EventRegistry:
    registry = EventRegistry()
    for handler in (Welcome, Greet):
        handler.failures, handler.sessions = 0, []
        registry.handles(AccountOpened)(handler)
    return registry


class Pool:
    """Closes with the container, and says so to whoever asked."""

    def __init__(self) -> None:
        self.on_close: list[Callable[[], None]] = []


@pytest.fixture
def container(database: AsyncEngine, registry: EventRegistry) -> AsyncContainer:
    async def pool() -> AsyncIterator[Pool]:
        opened = Pool()
        yield opened
        for callback in opened.on_close:
            callback()

    async def session() -> AsyncIterator[MainAsyncSession]:
        async with AsyncSession(database) as opened:
            yield MainAsyncSession(opened)

    provider = Provider(scope=Scope.REQUEST)
    provider.provide(session)
    provider.provide(Unit)
    provider.provide(pool, scope=Scope.APP)
    own = [EventHandlerProvider(registry), OutboxProvider(outbox, session=MainAsyncSession)]
    return make_async_container(provider, *own)


def application(database: AsyncEngine, container: AsyncContainer, registry: EventRegistry) -> Any:
    publisher = HandlersPublisher(container, session=MainAsyncSession, registry=registry)
    relay = OutboxRelay(outbox, database, publisher, retry=RetrySchedule.seconds(0, forever=True))

    @asynccontextmanager
    async def checked(app: FastAPI) -> AsyncIterator[None]:
        await check_handlers(container, registry)
        yield

    app = FastAPI(lifespan=relay_lifespan(relay, lifespan=checked))
    setup_dishka(container, app)

    @app.post("/sign-up")
    @inject
    async def sign_up(
        email: str, unit: FromDishka[Unit], dispatcher: FromDishka[EventDispatcher]
    ) -> None:
        account = Account.open("Ann", email)
        unit.session.add(account)
        await dispatcher.dispatch(account.collect_events())
        await unit.session.commit()

    app.state.relay = relay
    return app


@asynccontextmanager
async def live(app: FastAPI) -> AsyncIterator[AsyncClient]:
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=ASGITransport(app), base_url="http://test") as client,
    ):
        yield client


async def delivered(database: AsyncEngine, wanted: int) -> None:
    query = select(func.count()).where(OutboxRecord.delivered)

    async def is_so() -> bool:
        async with async_sessionmaker(database)() as session:
            return await session.scalar(query) == wanted

    await eventually(is_so)


@pytest.mark.requirement("A11")
@pytest.mark.requirement("A16")
@pytest.mark.requirement("A17")
async def test_a_request_ends_in_the_handlers_each_with_a_session_of_its_own(
    database: AsyncEngine, container: AsyncContainer, registry: EventRegistry
) -> None:
    app = application(database, container, registry)
    async with live(app) as client:
        for name in ("ann", "bob", "cid"):
            answer = await client.post("/sign-up", params={"email": f"{name}@example.com"})
            assert answer.is_success
        await delivered(database, 3)
    assert len(await notes(database)) == 6
    assert len({id(each) for each in Welcome.sessions + Greet.sessions}) == 6


@pytest.mark.requirement("A12")
@pytest.mark.requirement("E3")
async def test_a_handler_that_fails_is_run_again_and_its_sibling_is_not(
    database: AsyncEngine, container: AsyncContainer, registry: EventRegistry
) -> None:
    Greet.failures = 3
    app = application(database, container, registry)
    async with live(app) as client:
        await client.post("/sign-up", params={"email": "a@b.com"})
        await delivered(database, 1)
    assert await notes(database) == ["Greet a@b.com", "Welcome a@b.com"]
    assert (len(Greet.sessions), len(Welcome.sessions)) == (4, 1)


@pytest.mark.requirement("A16")
async def test_the_relay_has_stopped_before_the_container_closes(
    database: AsyncEngine, container: AsyncContainer, registry: EventRegistry
) -> None:
    app = application(database, container, registry)
    health: list[str] = []
    pool = await container.get(Pool)
    pool.on_close.append(lambda: health.append(app.state.relay.health.status))
    async with live(app):
        await eventually(lambda: app.state.relay.health.status == "ok")
    assert health == ["stopped"]


async def test_a_request_is_answered_before_its_handlers_are_done(
    database: AsyncEngine, container: AsyncContainer, registry: EventRegistry
) -> None:
    app = application(database, container, registry)
    gate = asyncio.Event()
    handle = Welcome.handle

    async def waiting(self: Welcome, event: AccountOpened) -> None:
        async with asyncio.timeout(timedelta(seconds=20).total_seconds()):
            await gate.wait()
        await handle(self, event)

    Welcome.handle = waiting  # type: ignore[method-assign]
    try:
        async with live(app) as client:
            await client.post("/sign-up", params={"email": "a@b.com"})
            assert await notes(database) in ([], ["Greet a@b.com"])
            gate.set()
            await delivered(database, 1)
    finally:
        Welcome.handle = handle  # type: ignore[method-assign]
