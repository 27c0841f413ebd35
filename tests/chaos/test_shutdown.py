"""Asked to stop, cancelled, or out of patience: what is left, and who may take it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import Status
from postroom.publishers.base import DELIVERED, Outcome
from postroom.record import ClaimedRecord
from postroom.relay.health import HealthStatus
from postroom.relay.relay import OutboxRelay
from tests.chaos.fleet import Fleet
from tests.chaos.ledger import Ledger, out_of_order, repeats
from tests.chaos.outbox import has_status, leases, records_of, records_of_keys, rows, running, save
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import outbox
from tests.support.waiting import PATIENCE, eventually

LEASE = 10 * timedelta(seconds=PATIENCE)
"""Longer than any wait: what another relay gets, it gets because it was given back."""


class Door:
    """Lets deliveries end once it is open."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, record: ClaimedRecord) -> Outcome:
        await self.opened.wait()
        return DELIVERED


def relay_through(engine: AsyncEngine, ledger: Ledger, door: Door, **options: Any) -> OutboxRelay:
    publisher = LedgerPublisher(ledger, treat=door)
    return OutboxRelay(outbox, engine, publisher, lease=LEASE, **options)


async def deliver_the_rest(engine: AsyncEngine, ledger: Ledger) -> int:
    """Have another relay take what is there, at once."""
    async with asyncio.timeout(PATIENCE):
        relay = OutboxRelay(outbox, engine, LedgerPublisher(ledger, "next"))
        return (await relay.run_once()).delivered


async def test_stop_finishes_and_settles_what_is_on_its_way_and_gives_the_rest_back(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    door = Door()
    await save(engine, records_of_keys(5, 3))
    relay = relay_through(engine, ledger, door)
    async with running(relay) as run:
        await eventually(lambda: len(ledger.entries()) == 5, "one of each key is on its way")
        stop = asyncio.create_task(relay.stop())
        await asyncio.wait([stop], timeout=0.1)
        assert not stop.done()
        door.opened.set()
        async with asyncio.timeout(PATIENCE):
            await stop
            await run

    assert len(ledger.delivered()) == 5
    assert len(await rows(engine, outbox.tables.records.c.status == Status.PUBLISHED)) == 5
    assert await leases(engine) == []
    assert relay.health.status is HealthStatus.STOPPED
    assert await deliver_the_rest(engine, ledger) == 10
    assert repeats(ledger.delivered()) == []
    assert out_of_order(ledger.delivered()) == []


async def test_stop_breaks_off_what_takes_longer_than_the_grace_period(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    await save(engine, records_of("one", 2))
    relay = relay_through(engine, ledger, Door(), grace=timedelta(seconds=0.2))
    async with running(relay) as run:
        await eventually(lambda: len(ledger.entries()) == 1, "a delivery is under way")
        async with asyncio.timeout(PATIENCE):
            await relay.stop()
            await run

    assert {(row.status, row.retry_count) for row in await rows(engine)} == {("pending", 0)}
    assert await leases(engine) == []
    assert await deliver_the_rest(engine, ledger) == 2


@pytest.mark.requirement("A15")
async def test_a_relay_cancelled_at_work_leaves_it_to_the_next_start_which_delivers_at_once(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    await save(engine, records_of_keys(3, 2))
    relay = relay_through(engine, ledger, Door())
    async with running(relay) as run:
        await eventually(lambda: len(ledger.entries()) == 3, "deliveries are under way")
        run.cancel()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([run])
        assert run.cancelled()

    assert {(row.status, row.retry_count) for row in await rows(engine)} == {("pending", 0)}
    assert await leases(engine) == []
    assert await deliver_the_rest(engine, ledger) == 6
    assert len(ledger.delivered()) == 6


@pytest.mark.requirement("A14")
@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_a_relay_that_sleeps_ends_without_an_error(
    engine: AsyncEngine, ledger: Ledger, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    relay = relay_through(engine, ledger, Door())
    async with running(relay) as run, asyncio.timeout(PATIENCE):
        await eventually(lambda: relay.health.status is HealthStatus.OK, "it runs")
        if how == "stop":
            await relay.stop()
        else:
            run.cancel()
        await asyncio.wait([run])
        assert run.cancelled() == (how == "cancel")
        assert run.cancelled() or run.exception() is None
    assert caplog.records == []


@pytest.mark.requirement("A15")
async def test_sigterm_settles_what_is_in_flight_and_exits_with_0(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet
) -> None:
    await save(engine, records_of_keys(20, 20))
    worker = fleet.start(latency=0.05, lease=LEASE.total_seconds())
    await eventually(lambda: len(ledger.delivered()) >= 20, "deliveries are under way")

    worker.ask_to_stop()
    await eventually(lambda: worker.dead, "the worker has ended")

    assert worker.process.returncode == 0
    settled = await rows(engine, outbox.tables.records.c.status == Status.PUBLISHED)
    assert {str(row.id) for row in settled} == ledger.records()
    assert await leases(engine) == []
    await deliver_the_rest(engine, ledger)
    assert repeats(ledger.delivered()) == []
    assert has_status(await rows(engine), Status.PUBLISHED)
