"""Records that do harm: to the process, to the connection, or to nobody but themselves."""

import asyncio
import time
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import func, insert, update
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRecord, Status
from postroom.publishers.base import DELIVERED, Outcome
from postroom.record import ClaimedRecord
from postroom.relay.relay import OutboxRelay
from tests.chaos.fleet import Fleet
from tests.chaos.ledger import Ledger, out_of_order
from tests.chaos.outbox import (
    TABLES,
    has_status,
    keys_in,
    records_of,
    records_of_keys,
    row_of,
    rows,
    running,
    save,
)
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import outbox
from tests.support.waiting import PATIENCE, eventually, happens

MAX_CRASHES = 2
UNNOTICED = 2
"""Deaths before a partition is served with caution."""


async def restart_the_dead(fleet: Fleet, workers: int, engine: AsyncEngine, end: str) -> None:
    """Keep so many workers running until no record is in flight or ready any more."""

    async def done() -> bool:
        return not await rows(engine, TABLES.records.c.ready)

    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        while len(fleet.alive) < workers:
            fleet.start()
        if await happens(done, within=0.2):
            return
    pytest.fail(f"{end}: {len(fleet.dead)} workers died")


@pytest.mark.requirement("E1")
async def test_a_record_that_kills_its_process_fails_and_the_rest_flows(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet
) -> None:
    killer, *followers = records_of("k0", 4)
    others = records_of_keys(10, 6)
    await save(engine, [*others, killer, *followers])
    fleet.configure(lease=1.0, poll=0.2, kill=(str(killer.id),), max_crashes=MAX_CRASHES)

    await restart_the_dead(fleet, 2, engine, "the killer has not been found")

    row = await row_of(engine, killer)
    assert row.status == Status.FAILED
    assert row.error_message == (
        f"the process died {MAX_CRASHES} times while it delivered this record alone"
    )
    assert await failed(engine) == [killer.id]
    assert len(fleet.dead) == UNNOTICED + MAX_CRASHES
    assert ledger.records() == {str(record.id) for record in others}
    assert out_of_order(ledger.delivered()) == []
    assert await held_back(engine, followers)


class Counter:
    """Counts how many deliveries are under way at once."""

    def __init__(self) -> None:
        self.most = 0
        self._now = 0

    async def take(self, record: ClaimedRecord) -> Outcome:
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0.1)  # the time that a handler takes
        self._now -= 1
        return DELIVERED


@pytest.mark.requirement("E1")
async def test_after_crashes_a_process_delivers_one_record_alone_whatever_its_lanes(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    # Otherwise the one that is innocent would be blamed as often as the other.
    counter = Counter()
    relay = OutboxRelay(outbox, engine, LedgerPublisher(ledger, treat=counter.take), lanes=2)
    await save(engine, [*records_of(next(keys_in(1)), 3), *records_of(next(keys_in(2)), 3)])
    await pretend_that_a_worker_died_over(engine, relay, 1, 2)

    async with running(relay):
        await eventually(lambda: len(ledger.delivered()) == 6, "all is delivered")
        await relay.stop()

    assert counter.most == 1


async def pretend_that_a_worker_died_over(
    engine: AsyncEngine, relay: OutboxRelay, *partitions: int
) -> None:
    """Have leases that ran out for the second time, and workers enough to divide them."""
    await relay.store.open()
    past, future = (func.now() + timedelta(minutes=minutes) for minutes in (-1, 1))
    table = TABLES.leases
    died = update(table).values(worker="dead", leased_until=past, crash_count=1)
    async with engine.begin() as connection:
        await connection.execute(died.where(table.c.partition.in_(partitions)))
        await connection.execute(insert(TABLES.workers).values(worker="another", seen_until=future))


async def failed(engine: AsyncEngine) -> list[UUID]:
    return [row.id for row in await rows(engine, TABLES.records.c.status == Status.FAILED)]


async def held_back(engine: AsyncEngine, records: list[OutboxRecord]) -> bool:
    found = await rows(engine, TABLES.records.c.id.in_([record.id for record in records]))
    return has_status(found, Status.PENDING) and not any(row.ready for row in found)
