"""A relay that is stopped or cancelled: what is under way is settled, and leases are given back."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import HealthStatus, MemoryPublisher, OutboxRelay, SchemaError
from postroom.publishers.base import DELIVERED, Outcome
from postroom.record import ClaimedRecord
from postroom.relay import delivery
from tests.support.gated_publisher import GatedPublisher, happened
from tests.support.rows import rows, save
from tests.support.shop import outbox
from tests.support.waiting import PATIENCE, eventually

LEASE = 10 * timedelta(seconds=PATIENCE)
"""Longer than any wait: what another relay gets, it gets because it was given back."""


async def leased(engine: AsyncEngine) -> int:
    held = text("SELECT count(*) FROM outbox_leases WHERE worker IS NOT NULL")
    async with engine.connect() as connection:
        return int(await connection.scalar(held) or 0)


async def statuses(engine: AsyncEngine) -> dict[str, str]:
    return {each.event_type: each.status for each in await rows(engine)}


@pytest.mark.requirement("A14")
@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_a_relay_that_sleeps_ends_without_an_error(
    engine: AsyncEngine, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    relay = OutboxRelay(outbox, engine, MemoryPublisher())
    run = asyncio.create_task(relay.run())
    await eventually(lambda: relay.health.status is HealthStatus.OK and relay.idle, "it sleeps")
    if how == "stop":
        await relay.stop()
    else:
        run.cancel()
    await asyncio.wait([run], timeout=PATIENCE)
    assert run.cancelled() == (how == "cancel")
    assert run.cancelled() or run.exception() is None
    assert caplog.records == []


@pytest.mark.requirement("A15")
async def test_a_relay_cancelled_at_work_leaves_it_to_the_next_start_which_delivers_at_once(
    engine: AsyncEngine,
) -> None:
    publisher = GatedPublisher("one", "two")
    await save(engine, happened("one"), happened("two"))
    run = asyncio.create_task(OutboxRelay(outbox, engine, publisher, lease=LEASE).run())
    await eventually(lambda: len(publisher.started) == 2, "deliveries are under way")
    run.cancel()
    await asyncio.wait([run], timeout=PATIENCE)
    assert run.cancelled()
    assert {(each.status, each.retry_count) for each in await rows(engine)} == {("pending", 0)}
    assert await leased(engine) == 0
    async with asyncio.timeout(PATIENCE):
        assert (await OutboxRelay(outbox, engine, MemoryPublisher()).run_once()).delivered == 2


class FinishesItsCall(GatedPublisher):
    """Confirms what it has sent, also when its call is cancelled."""

    async def take(self, record: ClaimedRecord) -> Outcome:
        try:
            return await super().take(record)
        except asyncio.CancelledError:
            self.arrived.append(record.event_type)
            return DELIVERED


async def test_nothing_is_sent_after_a_cancellation_that_a_delivery_survives(
    engine: AsyncEngine,
) -> None:
    names = ("one", "two", "three")
    publisher, rest = FinishesItsCall(*names), GatedPublisher()
    await save(engine, *(happened(name, "k") for name in names))
    run = asyncio.create_task(OutboxRelay(outbox, engine, publisher, lease=LEASE).run())
    await eventually(lambda: publisher.started)
    run.cancel()
    await asyncio.wait([run], timeout=PATIENCE)
    assert run.cancelled()
    assert publisher.started == publisher.arrived == ["one"]
    assert await statuses(engine) == {"one": "published", "two": "pending", "three": "pending"}
    assert await leased(engine) == 0
    assert (await OutboxRelay(outbox, engine, rest).run_once()).delivered == 2
    assert rest.arrived == ["two", "three"]


class Stubborn(GatedPublisher):
    """Heeds no cancellation: what waits at its gate goes on waiting."""

    async def take(self, record: ClaimedRecord) -> Outcome:
        delivery = asyncio.ensure_future(super().take(record))
        while not delivery.done():
            try:
                await asyncio.shield(delivery)
            except asyncio.CancelledError:
                continue
        return delivery.result()


async def test_a_delivery_that_heeds_no_cancellation_keeps_nobody_from_being_settled(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "CANCEL_WITHIN", 0.2)
    publisher = Stubborn("stubborn")
    await save(engine, happened("stubborn"), happened("quick"))
    records = outbox.tables.records
    async with engine.connect() as connection:
        quick = select(records).where(records.c.event_type == "quick").with_for_update()
        await connection.execute(quick)  # so that it cannot be settled
        run = asyncio.create_task(OutboxRelay(outbox, engine, publisher).run())
        await eventually(lambda: sorted(publisher.started) == ["quick", "stubborn"])
        await eventually(lambda: publisher.arrived == ["quick"])
        run.cancel()
        for _ in range(50):  # for the cancellation to arrive everywhere
            await asyncio.sleep(0)
    await asyncio.wait([run], timeout=PATIENCE)
    assert publisher.arrived == ["quick"]
    assert await statuses(engine) == {"stubborn": "pending", "quick": "published"}
    assert await leased(engine) == 0

    publisher.gate.set()
    await eventually(lambda: publisher.arrived == ["quick", "stubborn"])
    assert run.cancelled()


async def test_what_ends_a_relay_comes_out_of_the_block_that_it_runs_for(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'empty.db'}")
    relay = OutboxRelay(outbox, engine, GatedPublisher())
    with pytest.raises(SchemaError, match="no table `outbox`"):
        async with relay.running():
            await eventually(lambda: relay.health.status == HealthStatus.STOPPED)
    await engine.dispose()


class Unclosable(MemoryPublisher):
    async def close(self) -> None:
        raise ConnectionError("the broker has gone")


async def test_a_publisher_that_cannot_be_closed_leaves_no_connection_open(
    engine: AsyncEngine,
) -> None:
    async def connections() -> int:
        async with engine.connect() as connection:
            own = """SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name LIKE 'postroom %'"""
            return int(await connection.scalar(text(own)) or 0)

    async def none_is_left() -> bool:  # a backend ends some time after its connection
        return await connections() == 0

    relay = OutboxRelay(outbox, engine, Unclosable())
    run = asyncio.create_task(relay.run())
    await eventually(lambda: relay.idle)
    assert await connections() > 0
    await relay.stop()
    with pytest.raises(ConnectionError, match="has gone"):
        await run
    await eventually(none_is_left)
