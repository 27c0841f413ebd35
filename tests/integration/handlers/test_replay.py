"""A replayed record, as handlers in the process and as a consumer of RabbitMQ get it."""

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import (
    DomainEvent,
    EventRegistry,
    HandlersPublisher,
    OutboxRelay,
    UntypedEvent,
)
from postroom.operations import REPLAY_HEADER, Operations
from postroom.publishers.rabbitmq import RabbitMQPublisher
from postroom.record import PARTITIONS
from postroom.wakeup.notifier import CHANNEL, partitions_in
from tests.support.broker import Broker
from tests.support.rows import rows, save
from tests.support.shop import outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("E16")


@dataclass(frozen=True, kw_only=True)
class OrderPaid(DomainEvent, aggregate="order", key="number"):
    number: int


async def test_every_handler_runs_again_and_its_receipt_does_not_stop_it(
    engine: AsyncEngine,
) -> None:
    registry, handled = EventRegistry(), list[str]()

    @registry.handles(OrderPaid, name="ship")
    class Ship:
        async def handle(self, event: OrderPaid) -> None:
            handled.append(f"ship {event.number}")

    @registry.handles(OrderPaid, name="thank")
    class Thank:
        async def handle(self, event: OrderPaid) -> None:
            handled.append(f"thank {event.number}")

    await save(engine, OrderPaid(number=1), OrderPaid(number=2))
    relay = OutboxRelay(outbox, engine, HandlersPublisher(registry=registry))
    await relay.run_once()
    first, _ = await rows(engine)
    handled.clear()
    assert await Operations(outbox, engine).replay([first.id]) == 1
    await relay.run_once()
    assert sorted(handled) == ["ship 1", "thank 1"]


async def test_a_consumer_of_rabbitmq_finds_the_replay_in_the_headers(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str
) -> None:
    exchange = "orders"
    broker.exchange(exchange, "topic")
    queue = broker.queue("consumer", "order.*", exchange=exchange)
    await save(engine, UntypedEvent(event_type="order.paid", payload={}))
    relay = OutboxRelay(outbox, engine, RabbitMQPublisher(rabbitmq_url, exchange=exchange))
    await relay.run_once()
    [record] = await rows(engine)
    await Operations(outbox, engine).replay([record.id])
    await relay.run_once()
    once, again = await broker.consume(queue, 2)
    assert (once.message_id, once.routing_key) == (again.message_id, again.routing_key)
    assert REPLAY_HEADER not in once.headers
    assert len(again.headers[REPLAY_HEADER]) == len(str(record.id))


async def test_workers_that_listen_are_told_of_a_change(engine: AsyncEngine) -> None:
    told: list[Set[int] | None] = []

    def heard(*notification: Any) -> None:
        told.append(partitions_in(notification[-1], "outbox"))

    async with engine.connect() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await driver.add_listener(CHANNEL, heard)
        await Operations(outbox, engine).pause()
        await eventually(lambda: told, "a notification comes")
        await driver.remove_listener(CHANNEL, heard)
    assert told == [set(range(PARTITIONS))]
