"""The event bus in a FastAPI application: one per request, flushed into its transaction."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import Engine, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session

from postroom import EventBus, OutboxMiddleware, OutboxRecord, UntypedEvent
from postroom.integrations.fastapi import get_event_bus, outbox_middleware
from tests.support.shop import Account, outbox

Bus = Annotated[EventBus, Depends(get_event_bus)]
Middleware = Annotated[OutboxMiddleware, Depends(outbox_middleware(outbox))]

IN_ORDER = select(OutboxRecord).order_by(outbox.tables.records.c.position)
USER = UUID("550e8400-e29b-41d4-a716-446655440000")


def opened(name: str) -> UntypedEvent:
    return UntypedEvent(
        event_type="account.opened",
        aggregate_type="account",
        aggregate_id=USER,
        payload={"name": name},
    )


class Controller:
    """Emits into the bus of its request; knows of no outbox."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def open(self, session: AsyncSession, name: str) -> Account:
        account = Account(id=uuid4(), name=name, email="a@b.com")
        session.add(account)
        self._bus.emit(opened(name))
        return account


def application(engine: AsyncEngine, together: int = 1) -> FastAPI:
    app = FastAPI()
    sessions = async_sessionmaker(engine, expire_on_commit=False)
    barrier = asyncio.Barrier(together)

    async def get_session() -> AsyncIterator[AsyncSession]:
        async with sessions() as session:
            yield session

    @app.post("/accounts/{name}")
    async def open_account(
        name: str,
        controller: Annotated[Controller, Depends()],
        bus: Bus,
        middleware: Middleware,
        session: Annotated[AsyncSession, Depends(get_session)],
    ) -> dict[str, int]:
        controller.open(session, name)
        await barrier.wait()  # every request has emitted before the first one flushes
        if name == "nobody":
            raise HTTPException(422)
        count = await middleware.flush(session, bus, user_id=USER)
        await session.commit()
        return {"count": count, "left": bus.event_count}

    return app


def client(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop")


async def names(engine: AsyncEngine) -> list[str]:
    async with AsyncSession(engine) as session:
        return [record.payload["name"] for record in await session.scalars(IN_ORDER)]


@pytest.mark.requirement("C2", "C4", "A5")
async def test_a_request_saves_its_events_with_its_data(engine: AsyncEngine) -> None:
    async with client(application(engine)) as shop:
        response = await shop.post("/accounts/Ann")
    assert response.json() == {"count": 1, "left": 0}
    async with AsyncSession(engine) as session:
        assert (await session.scalars(select(Account.name))).all() == ["Ann"]
        [record] = await session.scalars(IN_ORDER)
        assert record.payload == {
            "name": "Ann",
            "event_type": "account.opened",
            "aggregate_type": "account",
            "aggregate_id": str(USER),
            "timestamp": record.payload["timestamp"],
            "user_id": str(USER),
        }
        assert record.status == "pending"


@pytest.mark.requirement("C2")
async def test_concurrent_requests_do_not_share_a_bus(engine: AsyncEngine) -> None:
    async with client(application(engine, together=2)) as shop:
        responses = await asyncio.gather(shop.post("/accounts/Ann"), shop.post("/accounts/Bob"))
    assert [response.json()["count"] for response in responses] == [1, 1]
    assert sorted(await names(engine)) == ["Ann", "Bob"]


@pytest.mark.requirement("C2")
async def test_requests_one_after_the_other_do_not_share_a_bus(engine: AsyncEngine) -> None:
    async with client(application(engine)) as shop:
        refused = await shop.post("/accounts/nobody")  # emits, and never flushes
        response = await shop.post("/accounts/Ann")
    assert refused.status_code == 422
    assert response.json()["count"] == 1
    assert await names(engine) == ["Ann"]


@pytest.mark.requirement("C4")
async def test_a_flush_is_not_seen_before_the_commit(engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as session:
        bus = EventBus()
        bus.emit(opened("Ann"))
        assert await outbox.middleware().flush(session, bus) == 1
        assert await names(engine) == []
        await session.commit()
    assert await names(engine) == ["Ann"]


@pytest.mark.requirement("C4", "A5")
async def test_a_rollback_after_the_flush_leaves_nothing(engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as session:
        bus = EventBus()
        bus.emit(opened("Ann"))
        session.add(Account(id=uuid4(), name="Ann", email="a@b.com", referrer_id=uuid4()))
        await outbox.middleware().flush(session, bus)
        with pytest.raises(IntegrityError):
            await session.commit()
    assert await names(engine) == []


@pytest.mark.requirement("C4", "E4")
async def test_a_sync_session_can_be_flushed_into(sync_database: Engine) -> None:
    with Session(sync_database) as session:
        bus = EventBus()
        bus.emit(opened("Ann"))
        assert outbox.middleware().flush_sync(session, bus) == 1
        bus.emit(opened("Bob"))
        assert await outbox.middleware().flush(session, bus) == 1
        session.commit()
        assert [record.payload["name"] for record in session.scalars(IN_ORDER)] == ["Ann", "Bob"]
