"""Outboxes filled by the database itself: a million records in seconds."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from benchmarks.contenders.messages import NOTE
from postroom import DomainEvent, Outbox
from postroom.record import PARTITIONS, key_hash


@dataclass(frozen=True, kw_only=True)
class OrderPlaced(DomainEvent, aggregate="order", key="order_id"):
    order_id: str
    customer: str
    total: int
    note: str = NOTE


PAYLOAD = f"""jsonb_build_object('event_id', id, 'occurred_at', now(), 'order_id', key,
    'customer', 'ann@example.com', 'total', n, 'note', '{NOTE}')"""
"""The payload of event number `n` in SQL, about 300 bytes of JSON."""


def key_names(prefix: str, count: int) -> list[str]:
    """Name so many keys."""
    return [f"{prefix}-{number}" for number in range(count)]


async def add_records(
    connection: AsyncConnection,
    outbox: Outbox,
    count: int,
    keys: Sequence[str],
    **columns: str,
) -> None:
    """Insert records of these keys in turn; `columns` are other columns, in SQL."""
    names = "".join(f", {name}" for name in columns)
    values = "".join(f", {value}" for value in columns.values())
    # Ids that grow with time, as those of events do.
    statement = text(f"""
        WITH keys AS MATERIALIZED (
            SELECT * FROM unnest(CAST(:keys AS text[]), CAST(:partitions AS smallint[]))
                WITH ORDINALITY AS keys(key, partition, number)
        ), events AS (
            SELECT n, CAST(lpad(to_hex(n), 12, '0') || '7' || substr(md5(CAST(random() AS text)), 1,
                19) AS uuid) AS id FROM generate_series(0, CAST(:count AS bigint) - 1) AS n
        )
        INSERT INTO {outbox.tables.records.fullname} (id, event_type, aggregate_type, aggregate_id,
            partition, payload, max_retries, occurred_at{names})
        SELECT id, 'OrderPlaced', 'order', key, partition, {PAYLOAD}, 10, now(){values}
        FROM events JOIN keys ON number = n % :distinct + 1 ORDER BY n""")
    partitions = [key_hash("order", key) % PARTITIONS for key in keys]
    values_of = {"keys": list(keys), "partitions": partitions, "distinct": len(keys)}
    await connection.execute(statement, {**values_of, "count": count})


async def block_keys(connection: AsyncConnection, outbox: Outbox, where: str) -> None:
    """Have keys wait for records of theirs, those that a condition in SQL picks."""
    records, blocked = outbox.tables.records, outbox.tables.blocked_keys
    await connection.execute(
        text(f"""INSERT INTO {blocked.fullname} (aggregate_type, aggregate_id, position)
            SELECT aggregate_type, aggregate_id, position FROM {records.fullname} WHERE {where}""")
    )


async def vacuum(engine: AsyncEngine, outbox: Outbox, *, analyze: bool = True) -> None:
    """Do what autovacuum does in time; a server may have it off."""
    alone = engine.execution_options(isolation_level="AUTOCOMMIT")
    how = "VACUUM (ANALYZE)" if analyze else "VACUUM"
    async with alone.connect() as connection:
        for table in outbox.tables:
            await connection.execute(text(f"{how} {table.fullname}"))
