"""The large outbox that operators look at, by commands or in the console.

It holds a million published records, 100,000 pending ones and 10,000 that failed, each with an
error of its own.
"""

from dataclasses import dataclass

from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from benchmarks.backlog import add_records, block_keys, key_names
from postroom import Outbox, OutboxRecord
from postroom.store.store import Store

PUBLISHED, READY, HOT, WAITING, FAILED, FOLLOWERS = 1_000_000, 40_000, 15_000, 5_000, 10_000, 4
"""Records of each kind; `FOLLOWERS` are parked behind each one that failed."""
SPREAD = "random() * interval '7 days'"
ERROR = """'PaymentDeclined: card ' || md5(CAST(n AS text)) || ' of '
    || translate(md5(CAST(n AS text)), '0123456789', 'ghijklmnop')"""
"""10,000 errors, of which no two are of one kind."""


class OperatorsRecord(OutboxRecord):
    """A record of the outbox that operators look at."""


outbox = Outbox(MetaData(), table="operated", record=OperatorsRecord)
RECORDS = outbox.tables.records.fullname


@dataclass(frozen=True)
class Sizes:
    """A part of all records, and how often each answer is timed."""

    part: float
    turns: int

    def of(self, number: int) -> int:
        return max(10, int(number * self.part))


async def create_tables(engine: AsyncEngine) -> None:
    """Create the tables, as a relay finds them."""
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    await Store(engine, outbox.tables).open()


async def fill(engine: AsyncEngine, sizes: Sizes) -> None:
    """Write all records."""
    async with engine.begin() as connection:
        await add_records(
            connection,
            outbox,
            sizes.of(PUBLISHED),
            key_names("done", sizes.of(20_000)),
            status="'published'",
            ready="false",
            published_at="now()",
            created_at=f"now() - {SPREAD}",
        )
        await _add_failed(connection, sizes.of(FAILED))
        waiting = {"ready": "false", "due_at": "now() + interval '1 hour'", "retry_count": "3"}
        await add_records(
            connection,
            outbox,
            sizes.of(WAITING),
            key_names("late", sizes.of(WAITING)),
            error_message="'Timeout: 30 s'",
            **waiting,
        )
        await block_keys(connection, outbox, "status = 'failed' OR due_at IS NOT NULL")
        await add_records(connection, outbox, sizes.of(READY), key_names("new", 5_000))
        await add_records(connection, outbox, sizes.of(HOT), ["hot"])
        await connection.execute(
            text(f"""UPDATE {RECORDS} SET event_type = 'Order' || position % 20
                WHERE status <> 'published'""")
        )


async def _add_failed(connection: AsyncConnection, number: int) -> None:
    """Write records that failed, and others that are parked behind them."""
    keys = key_names("bad", number)
    failed = {"status": "'failed'", "error_message": ERROR, "retry_count": "10"}
    await add_records(connection, outbox, number, keys, ready="false", **failed)
    await add_records(connection, outbox, FOLLOWERS * number, keys, ready="false")
