"""Records that do harm: to the process, to the connection, or to nobody but themselves."""

import asyncio
import itertools
import time
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import func, update
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
"""Deaths before a partition is served one by one."""


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
        f"the process died {MAX_CRASHES} times while it delivered this record"
    )
    assert await failed(engine) == [killer.id]
    assert len(fleet.dead) == UNNOTICED + MAX_CRASHES
    assert ledger.records() == {str(record.id) for record in others}
    assert out_of_order(ledger.delivered()) == []
    assert await held_back(engine, followers)


class Counter:
    """Counts how many deliveries are under way at once: in all, and in one partition."""

    def __init__(self) -> None:
        self.most = 0
        self.most_of_a_partition = 0
        self._now: dict[int, int] = {}

    async def take(self, record: ClaimedRecord) -> Outcome:
        self._now[record.partition] = self._now.get(record.partition, 0) + 1
        self.most = max(self.most, sum(self._now.values()))
        self.most_of_a_partition = max(self.most_of_a_partition, *self._now.values())
        await asyncio.sleep(0.1)  # the time that a handler takes
        self._now[record.partition] -= 1
        return DELIVERED


def records_of_two_partitions() -> list[OutboxRecord]:
    keys = [key for p in (1, 2) for key in itertools.islice(keys_in(p), 3)]
    return [record for key in keys for record in records_of(key, 1)]


@pytest.mark.requirement("E1")
async def test_after_crashes_one_record_of_each_partition_is_delivered_at_a_time(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    counter = Counter()
    relay = OutboxRelay(outbox, engine, LedgerPublisher(ledger, treat=counter.take))
    await save(engine, records_of_two_partitions())
    await pretend_that_a_worker_died_over(engine, relay, 1, 2)

    async with running(relay):
        await eventually(lambda: len(ledger.delivered()) == 6, "all is delivered")
        await relay.stop()

    assert (counter.most, counter.most_of_a_partition) == (2, 1)


@pytest.mark.requirement("E1")
async def test_records_whose_delivery_did_not_end_are_delivered_one_by_one(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    # Otherwise the one that is innocent would be blamed as often as the other.
    counter = Counter()
    relay = OutboxRelay(outbox, engine, LedgerPublisher(ledger, treat=counter.take))
    records = [records_of(next(keys_in(partition)), 1)[0] for partition in (1, 2)]
    await save(engine, records)
    await pretend_that_a_worker_died_over(engine, relay, 1, 2)
    for record in records:
        row = await row_of(engine, record)
        suspected = update(TABLES.leases).values(suspect=row.position, suspect_crashes=1)
        async with engine.begin() as connection:
            await connection.execute(suspected.where(TABLES.leases.c.partition == row.partition))

    async with running(relay):
        await eventually(lambda: len(ledger.delivered()) == 2, "all is delivered")
        await relay.stop()

    assert counter.most == 1


async def pretend_that_a_worker_died_over(
    engine: AsyncEngine, relay: OutboxRelay, *partitions: int
) -> None:
    """Have leases that ran out for the second time."""
    await relay.store.open()
    past = func.now() - timedelta(minutes=1)
    table = TABLES.leases
    died = update(table).values(worker="dead", leased_until=past, crash_count=1)
    async with engine.begin() as connection:
        await connection.execute(died.where(table.c.partition.in_(partitions)))


async def failed(engine: AsyncEngine) -> list[UUID]:
    return [row.id for row in await rows(engine, TABLES.records.c.status == Status.FAILED)]


async def held_back(engine: AsyncEngine, records: list[OutboxRecord]) -> bool:
    found = await rows(engine, TABLES.records.c.id.in_([record.id for record in records]))
    return has_status(found, Status.PENDING) and not any(row.ready for row in found)
