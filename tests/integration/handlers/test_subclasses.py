"""A record is published only when the handlers expected have run: of bases and patterns too."""

from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from postroom import (
    DomainEvent,
    EventRegistry,
    HandlersPublisher,
    OutboxRelay,
    Status,
    UntypedEvent,
)
from tests.support.shop import outbox


@dataclass(frozen=True, kw_only=True)
class OrderChanged(DomainEvent, aggregate="order", key="number"):
    number: int


@dataclass(frozen=True, kw_only=True)
class OrderShipped(OrderChanged):
    parcel: str


@pytest.mark.requirement("A9")
async def test_the_handler_of_a_base_runs_for_an_event_that_only_the_writer_registered(
    engine: AsyncEngine,
) -> None:
    worker, handled = EventRegistry(), list[Any]()

    @worker.handles(OrderChanged)
    class Note:
        async def handle(self, event: OrderChanged) -> None:
            handled.append(event)

    shipped = OrderShipped(number=7, parcel="P1")
    async with AsyncSession(engine) as session, session.begin():
        await outbox.dispatcher(session).dispatch([shipped])
    await OutboxRelay(outbox, engine, HandlersPublisher(registry=worker)).run_once()
    async with AsyncSession(engine) as session:
        statuses = list(await session.scalars(select(outbox.tables.records.c.status)))
    assert (handled, statuses) == ([shipped], [Status.PUBLISHED])


async def test_the_handler_of_a_pattern_runs_for_a_type_that_is_known_by_nothing_else(
    engine: AsyncEngine,
) -> None:
    worker, handled = EventRegistry(), list[UntypedEvent]()

    @worker.handles("order.*")
    class Note:
        async def handle(self, event: UntypedEvent) -> None:
            handled.append(event)

    viewed = UntypedEvent(event_type="order.viewed", payload={"page": 2})
    async with AsyncSession(engine) as session, session.begin():
        await outbox.dispatcher(session).dispatch([viewed])
    await OutboxRelay(outbox, engine, HandlersPublisher(registry=worker)).run_once()
    assert handled == [viewed]
