"""Deliveries that outlast a lease: their relay renews it, so that nobody else delivers them."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import (
    EventRegistry,
    HandlersPublisher,
    HealthStatus,
    OutageError,
    OutboxRelay,
    UntypedEvent,
)
from postroom.testing import FakeClock, RecordingPublisher
from tests.support.gated_publisher import GatedPublisher, happened, running
from tests.support.rows import all_delivered, save, until
from tests.support.shop import outbox
from tests.support.waiting import eventually

LEASE = timedelta(seconds=30)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def time_left(engine: AsyncEngine) -> timedelta | None:
    """Tell how long the leases that somebody holds will last at least, without a shift."""
    held = text("SELECT min(leased_until - now()) FROM outbox_leases WHERE worker IS NOT NULL")
    async with engine.connect() as connection:
        left: timedelta | None = await connection.scalar(held)
        return left


async def present(engine: AsyncEngine, shift: timedelta) -> int:
    """Count the relays that have polled lately by a clock that is ahead.

    A process of an earlier test that was killed may have left a row, which nobody renews.
    """
    seen = text("SELECT count(*) FROM outbox_workers WHERE seen_until > now() + :shift")
    async with engine.connect() as connection:
        count: int = await connection.scalar(seen, {"shift": shift})
        return count


async def outlast_leases(engine: AsyncEngine, clock: FakeClock) -> None:
    """Let the time of two leases pass, in steps that leave their holder the time to renew.

    And every relay the time to poll: a poll with the time of two steps ago would find leases that
    are longer than a lease is, and take them.
    """

    async def renewed() -> bool:
        leases = await time_left(engine)
        is_leased = leases is not None and leases - clock.shift() > 0.8 * LEASE
        return is_leased and await present(engine, clock.shift()) == 2

    for _ in range(6):
        clock.advance(LEASE / 3)
        await eventually(renewed, "the leases are renewed, and every relay has polled")


async def crashes(engine: AsyncEngine) -> int:
    counted = select(outbox.tables.leases.c.crash_count)
    async with engine.connect() as connection:
        return sum(await connection.scalars(counted))


async def test_what_outlasts_its_lease_while_the_relay_stops_is_delivered_once(
    engine: AsyncEngine, clock: FakeClock
) -> None:
    leaving, other = GatedPublisher("long"), GatedPublisher()
    hour = timedelta(hours=1)
    first = OutboxRelay(outbox, engine, leaving, clock=clock, lease=LEASE, grace=hour)
    second = OutboxRelay(outbox, engine, other, clock=clock, lease=LEASE)
    await save(engine, happened("long"))
    async with running(first, leaving):
        await eventually(lambda: leaving.started)
        async with running(second, other):
            await eventually(lambda: second.idle)
            stop = asyncio.create_task(first.stop())
            await outlast_leases(engine, clock)
            assert not stop.done()
            leaving.gate.set()
            await stop
            assert (leaving.arrived, other.started) == (["long"], [])
    await until(engine, all_delivered)
    assert await crashes(engine) == 0


async def test_what_outlasts_its_lease_during_an_outage_is_delivered_once(
    engine: AsyncEngine, clock: FakeClock
) -> None:
    publisher, other = GatedPublisher("long"), GatedPublisher()
    first = OutboxRelay(outbox, engine, publisher, clock=clock, lease=LEASE)
    second = OutboxRelay(outbox, engine, other, clock=clock, lease=LEASE)
    await save(engine, happened("long"))
    async with running(first, publisher):
        await eventually(lambda: publisher.started)
        publisher.away = publisher.shut = OutageError("no line")
        await save(engine, happened("bad"))
        await eventually(lambda: first.health.status == HealthStatus.DEGRADED)
        async with running(second, other):
            await eventually(lambda: other.arrived == ["bad"])
            await outlast_leases(engine, clock)
            assert first.health.status == HealthStatus.DEGRADED
            publisher.gate.set()
            await until(engine, all_delivered)
    assert (publisher.arrived, other.started) == (["long"], ["bad"])
    assert await crashes(engine) == 0


async def test_handlers_that_use_up_the_pool_do_not_cost_the_relay_its_leases(
    engine: AsyncEngine, clock: FakeClock, postgres_url: str
) -> None:
    small = create_async_engine(postgres_url, pool_size=1, max_overflow=0)
    gate, other = asyncio.Event(), GatedPublisher()
    registry, started = EventRegistry(), list[str]()

    @registry.handles("long")
    class UsesAConnection:
        async def handle(self, event: UntypedEvent) -> None:
            async with small.connect() as connection:
                await connection.execute(text("SELECT 1"))
                started.append("long")
                await gate.wait()

    handlers = HandlersPublisher(registry=registry, timeout=None)
    first = OutboxRelay(outbox, small, handlers, clock=clock, lease=LEASE)
    second = OutboxRelay(outbox, engine, other, clock=clock, lease=LEASE)
    await save(engine, happened("long"))
    async with first.running():
        await eventually(lambda: started)
        async with running(second, other):
            await outlast_leases(engine, clock)
            gate.set()
            await until(engine, all_delivered)
    await small.dispose()
    assert (started, other.started) == (["long"], [])
    assert await crashes(engine) == 0


async def test_delivering_once_waits_for_the_leases_of_a_worker_that_died(
    engine: AsyncEngine,
) -> None:
    publisher = RecordingPublisher()
    relay = OutboxRelay(outbox, engine, publisher)
    await save(engine, happened("one"), happened("two"))
    await relay.store.open()
    dead = await relay.store.leases.poll("a worker that died", lease=timedelta(seconds=0.3))
    assert dead.leases
    assert (await relay.run_once()).delivered == 2
