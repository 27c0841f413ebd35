"""A transaction that stays open: what the relay reads meanwhile, and what it must not miss.

PostgreSQL keeps every dead row, and its entries in indexes, that a snapshot may still see.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import MetaData, NullPool, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from postroom import (
    ClaimedRecord,
    Delivered,
    Outbox,
    OutboxRecord,
    OutboxRelay,
    Outcome,
    UntypedEvent,
)
from postroom.database.database import own_engine
from postroom.record import PARTITIONS
from postroom.store.store import Store
from tests.integration.store.bulk import KEYS, Bulk
from tests.support.waiting import eventually
from tests.support.without_autovacuum import database_without_autovacuum

pytestmark = pytest.mark.no_cover  # others cover the same, for less time

PARTS = 6
PART = 25 * KEYS
"""How many records are delivered between two measurements."""
BATCH = 25
BACKLOG = 40 * KEYS
"""How many records wait at least, while a test keeps the relay busy."""
SOON = timedelta(seconds=0.2)
PAGES = """
    SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read
    FROM pg_statio_user_tables WHERE relname = 'snapped'
"""
OLD = {
    "reads": "SELECT 1 FROM snapped LIMIT 1",
    "has written": "CREATE TABLE something (else_ int)",
}
"""What a transaction has done that stays open: the second has a number of its own."""
POLLS = 10
LEASE = timedelta(seconds=10)
OTHERS = f"""
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND pid <> pg_backend_pid() AND query NOT IN ('{"', '".join(OLD.values())}')
    AND backend_type = 'client backend'
"""


class SnappedRecord(OutboxRecord):
    """A record in tables that are never vacuumed."""


outbox = Outbox(MetaData(), table="snapped", record=SnappedRecord)


class Counter:
    """Takes everything, and counts it."""

    max_batch = 25
    max_in_flight = 25  # so that there are many claims

    def __init__(self) -> None:
        self.count = 0
        self.types: set[str] = set()

    async def open(self) -> None:
        pass

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        self.count += len(records)
        self.types.update(record.event_type for record in records)
        return [Delivered()] * len(records)

    async def close(self) -> None:
        pass


@pytest.fixture
async def engine() -> AsyncIterator[AsyncEngine]:
    async with database_without_autovacuum(outbox) as engine:
        yield engine


# -- pages


async def cost_of_a_part(engine: AsyncEngine, bulk: Bulk) -> int:
    """Deliver a part of the records; give the pages of the outbox that were read for it."""
    await bulk.write(PART)
    before, publisher = await pages(engine), Counter()
    relay = OutboxRelay(outbox, engine, publisher, listen=None, batch_size=BATCH)
    async with relay.running():
        await eventually(lambda: publisher.count == PART, "a part is delivered")
    return await pages(engine) - before


async def pages(engine: AsyncEngine) -> int:
    """Give the pages that were read by connections that are closed."""
    await engine.dispose()
    await eventually(lambda: nobody_works(engine), "all are closed")
    async with engine.connect() as connection:
        return int(await connection.scalar(text(PAGES)) or 0)


async def nobody_works(engine: AsyncEngine) -> bool:
    async with engine.connect() as connection:
        return not await connection.scalar(text(OTHERS))


@asynccontextmanager
async def old_transaction(engine: AsyncEngine, statement: str) -> AsyncIterator[None]:
    """Leave a transaction open that has begun with this statement, and sees what was then."""
    other = create_async_engine(engine.url, poolclass=NullPool, isolation_level="REPEATABLE READ")
    async with other.connect() as connection:
        await connection.execute(text(statement))
        yield


@pytest.mark.extended
@pytest.mark.parametrize("statement", OLD.values(), ids=OLD)
async def test_an_old_transaction_makes_deliveries_hardly_more_expensive(
    engine: AsyncEngine, statement: str
) -> None:
    bulk = Bulk(outbox, engine)
    await bulk.set_aside("key")
    await cost_of_a_part(engine, bulk)
    await bulk.run("ANALYZE")
    usual = max([await cost_of_a_part(engine, bulk) for _ in range(2)])
    async with old_transaction(engine, statement):
        costs = [await cost_of_a_part(engine, bulk) for _ in range(PARTS)]
    # Each relay begins anew, and reads what is dead until it knows its floors.
    assert costs[-1] <= 3 * usual, f"{usual} pages as usual, {costs} with the old transaction"


async def cost_of_a_poll(engine: AsyncEngine) -> float:
    """Poll some times while there is nothing to do; give the pages of the outbox for one poll.

    As a relay does that has delivered everything there is.
    """
    async with engine.connect() as connection:
        last = await connection.scalar(text("SELECT coalesce(max(position), 0) FROM snapped"))
    floors = dict.fromkeys(range(PARTITIONS), last or 0)
    own = own_engine(engine, outbox.tables, LEASE)
    store = Store(own, outbox.tables)
    await store.leases.create()
    await own.dispose()
    before = await pages(engine)
    for _ in range(POLLS):
        await store.leases.poll("ann", lease=LEASE, floors=floors)
    await own.dispose()
    return (await pages(engine) - before) / POLLS


@pytest.mark.parametrize("statement", OLD.values(), ids=OLD)
async def test_an_old_transaction_makes_a_poll_hardly_more_expensive(
    engine: AsyncEngine, statement: str
) -> None:
    bulk = Bulk(outbox, engine)
    await bulk.set_aside("key")
    await cost_of_a_part(engine, bulk)
    usual = await cost_of_a_poll(engine)
    async with old_transaction(engine, statement):
        await cost_of_a_part(engine, bulk)
        cost = await cost_of_a_poll(engine)
    assert cost <= 2 * usual, f"{usual} pages as usual, {cost} with the old transaction"


# -- a late commit


async def keep_busy(bulk: Bulk, publisher: Counter, enough: asyncio.Event) -> None:
    """Write records as fast as they are delivered, so that there are always some left."""
    written = publisher.count
    while not enough.is_set():
        await bulk.write(BACKLOG // 2)
        written += BACKLOG // 2
        await eventually(partial(is_hungry, publisher, written))


def is_hungry(publisher: Counter, written: int) -> bool:
    return publisher.count > written - BACKLOG


async def test_a_record_that_is_committed_after_later_ones_is_delivered_while_more_keep_coming(
    engine: AsyncEngine,
) -> None:
    bulk, publisher, enough = Bulk(outbox, engine), Counter(), asyncio.Event()
    await bulk.set_aside("key")
    late = UntypedEvent(event_type="late", aggregate_type="late", aggregate_id="1", payload={})
    relay = OutboxRelay(outbox, engine, publisher, listen=None, poll_interval=SOON)
    async with relay.running(), engine.connect() as connection:
        session = AsyncSession(connection)
        await outbox.dispatcher(session).dispatch([late])
        await session.flush()  # its position is taken
        feeding = asyncio.create_task(keep_busy(bulk, publisher, enough))
        await eventually(lambda: publisher.count >= 2 * BACKLOG, "later ones are delivered")
        assert "late" not in publisher.types
        await connection.commit()  # not the session's: that would wake the relay
        try:
            await eventually(lambda: "late" in publisher.types or feeding.done())
        finally:
            enough.set()
            await feeding
    assert "late" in publisher.types
