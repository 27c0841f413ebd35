"""What a relay reads by sequential scans, whatever the planner's statistics say.

A burst of records comes to an outbox in some state, and a relay delivers it. PostgreSQL counts the
rows that sequential scans read; autovacuum is off, so that statistics are as a test leaves them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import MemoryPublisher, Outbox, OutboxRecord, OutboxRelay, RetrySchedule
from postroom.testing import RecordingPublisher
from tests.integration.store.bulk import KEYS, Bulk
from tests.support.scans import rows_scanned
from tests.support.waiting import eventually
from tests.support.without_autovacuum import database_without_autovacuum

pytestmark = pytest.mark.no_cover  # others cover the same, for less time

BURST = 30 * KEYS
LOAD = 200 * KEYS
"""How many records there are before the burst."""
PASSES = 6
"""How often the whole table may be read: by the statements of the clean-up, when a relay starts."""
ROUNDS = 10
"""After five executions, PostgreSQL may keep a statement's plan."""


class PlannedRecord(OutboxRecord):
    """A record in tables that are never vacuumed."""


outbox = Outbox(MetaData(), table="planned", record=PlannedRecord)


@pytest.fixture
async def engine() -> AsyncIterator[AsyncEngine]:
    async with database_without_autovacuum(outbox) as engine:
        yield engine


# -- states


async def never_analysed(bulk: Bulk, engine: AsyncEngine) -> None:
    pass


async def analysed_while_empty(bulk: Bulk, engine: AsyncEngine) -> None:
    await bulk.run("ANALYZE")


async def all_published(bulk: Bulk, engine: AsyncEngine) -> None:
    await bulk.save("done")
    await OutboxRelay(outbox, engine, MemoryPublisher()).run_once()
    await bulk.multiply(LOAD // KEYS)
    await bulk.run("ANALYZE")


async def all_failed_or_parked(bulk: Bulk, engine: AsyncEngine) -> None:
    await bulk.save("bad", "bulk.spoilt")
    await bulk.save("bad")
    publisher = RecordingPublisher()
    publisher.refuse("bulk.spoilt", times=KEYS, permanent=True)
    await OutboxRelay(outbox, engine, publisher).run_once()
    assert publisher.messages == ()
    await bulk.multiply(LOAD // KEYS // 2)
    await bulk.run("ANALYZE")


async def all_in_backoff(bulk: Bulk, engine: AsyncEngine) -> None:
    await bulk.save("late")
    publisher = RecordingPublisher()
    publisher.refuse("bulk.written", times=KEYS)
    retry = RetrySchedule.seconds(3600, forever=True)
    await OutboxRelay(outbox, engine, publisher, retry=retry).run_once()
    assert publisher.messages == ()
    await bulk.multiply(LOAD // KEYS)
    await bulk.run("ANALYZE")


State = Callable[[Bulk, AsyncEngine], Awaitable[None]]
MAIN = [(analysed_while_empty, False), (all_published, True)]
"""What make test runs; the rest is extended."""
STATES = [
    pytest.param(
        state,
        prepared,
        id=f"{'old' if prepared else 'new'} relay-{state.__name__}",
        marks=[] if (state, prepared) in MAIN else pytest.mark.extended,
    )
    for state in (
        never_analysed,
        analysed_while_empty,
        all_published,
        all_failed_or_parked,
        all_in_backoff,
    )
    for prepared in (False, True)
]


# -- the measurement


async def count(engine: AsyncEngine) -> int:
    async with engine.connect() as connection:
        return int(await connection.scalar(text("SELECT count(*) FROM planned")) or 0)


async def deliver_one_by_one(bulk: Bulk, publisher: MemoryPublisher) -> None:
    """Have the relay run its statements so often that PostgreSQL keeps their plans."""
    for _ in range(ROUNDS):
        already = len(publisher.messages)
        await bulk.save("little", keys=1)
        await eventually(partial(has, publisher, already + 1))


def has(publisher: MemoryPublisher, count: int) -> bool:
    return len(publisher.messages) == count


@pytest.mark.requirement("E17")
@pytest.mark.parametrize(("state", "prepared"), STATES)
async def test_a_relay_scans_the_outbox_a_few_times_at_most_to_deliver_thousands_of_records(
    engine: AsyncEngine, state: State, prepared: bool
) -> None:
    bulk = Bulk(outbox, engine)
    await bulk.set_aside("burst")
    await state(bulk, engine)
    load = await count(engine)
    publisher = MemoryPublisher()
    relay = OutboxRelay(outbox, engine, publisher, poll_interval=timedelta(seconds=0.1))
    before = await rows_scanned(engine, "planned")
    async with relay.running():
        if prepared:
            await deliver_one_by_one(bulk, publisher)
        already = len(publisher.messages)
        await bulk.write(BURST)
        await eventually(partial(has, publisher, already + BURST))
    assert await rows_scanned(engine, "planned") - before <= PASSES * (load + BURST)
