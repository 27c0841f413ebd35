"""The outbox under test: rows put in, and rows as they stand."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Row, exists, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from postroom import OutboxRecord, Status
from postroom.record import PARTITIONS, key_hash
from postroom.relay.relay import OutboxRelay
from tests.support.shop import outbox

TABLES = outbox.tables
KIND = "thing"


def records_of(key: str, count: int, **values: Any) -> list[OutboxRecord]:
    """Make records of one key."""
    return [
        OutboxRecord(
            event_type="thing.happened",
            payload={"number": number},
            aggregate_type=KIND,
            aggregate_id=key,
            **values,
        )
        for number in range(count)
    ]


def records_of_keys(keys: int, each: int, **values: Any) -> list[OutboxRecord]:
    """Make records of many keys, one of each in turn."""
    rows = zip(*[records_of(f"k{key}", each, **values) for key in range(keys)], strict=True)
    return list(itertools.chain.from_iterable(rows))


def keys_in(partition: int) -> Iterator[str]:
    """Give keys whose records share a partition."""
    names = (f"p{partition}-{number}" for number in itertools.count())
    return (name for name in names if key_hash(KIND, name) % PARTITIONS == partition)


async def save(engine: AsyncEngine, records: Iterable[OutboxRecord]) -> None:
    """Commit records, as an application does."""
    async with AsyncSession(engine, expire_on_commit=False) as session:
        session.add_all(records)
        await session.commit()


async def rows(engine: AsyncEngine, *conditions: Any) -> Sequence[Row[Any]]:
    """Read the records as they stand, in order."""
    table = TABLES.records
    async with engine.connect() as connection:
        found = await connection.execute(
            select(table).where(*conditions).order_by(table.c.position)
        )
        return found.all()


async def settled(engine: AsyncEngine) -> bool:
    """Tell whether every record is delivered."""
    left = exists().where(TABLES.records.c.status != Status.PUBLISHED)
    async with engine.connect() as connection:
        return not await connection.scalar(select(left))


async def row_of(engine: AsyncEngine, record: OutboxRecord) -> Row[Any]:
    """Read one record as it stands."""
    (row,) = await rows(engine, TABLES.records.c.id == record.id)
    return row


async def blocked_keys(engine: AsyncEngine) -> Sequence[Row[Any]]:
    async with engine.connect() as connection:
        return (await connection.execute(select(TABLES.blocked_keys))).all()


async def leases(engine: AsyncEngine, *conditions: Any) -> Sequence[Row[Any]]:
    """Read the leases that somebody holds."""
    table = TABLES.leases
    held = select(table).where(table.c.worker.is_not(None), *conditions)
    async with engine.connect() as connection:
        return (await connection.execute(held)).all()


def has_status(found: Iterable[Row[Any]], status: str) -> bool:
    return all(row.status == status for row in found)


@asynccontextmanager
async def running(relay: OutboxRelay) -> AsyncIterator[asyncio.Task[None]]:
    """Run a relay beside the test, and stop it."""
    task = asyncio.create_task(relay.run())
    try:
        yield task
    finally:
        if not task.done() and not task.cancelling():
            task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.result()
