"""Questions about an outbox on PostgreSQL: what they read, whom they hold up, what they show."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import URL, MetaData, text
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import Outbox, OutboxRecord
from postroom.errors import InspectionTimeoutError
from postroom.inspection import (
    PENDING,
    Inspector,
    RecordFilter,
    RecordState,
)
from postroom.inspection.reading import Reader
from tests.support.scans import rows_scanned
from tests.support.without_autovacuum import tables_without_autovacuum

ROUNDS = 7
"""After five executions, PostgreSQL may keep a statement's plan."""
SECRET = "4111-1111-1111-1111"


class InspectedRecord(OutboxRecord):
    """A record in tables that are never vacuumed."""


outbox = Outbox(MetaData(), table="inspected", record=InspectedRecord, redact=("card",))


@pytest.fixture
async def engine(doctor_database: URL) -> AsyncIterator[AsyncEngine]:
    """Tables in which nothing is analyzed."""
    async with tables_without_autovacuum(outbox, doctor_database) as engine:
        yield engine


async def fill(engine: AsyncEngine) -> None:
    """Write delivered, failed, parked and ready records, without a scan; nothing is analyzed."""
    async with engine.begin() as connection:
        await connection.execute(
            text("""INSERT INTO inspected (id, event_type, aggregate_type, aggregate_id, partition,
                    payload, occurred_at, status, ready, error_message)
                SELECT gen_random_uuid(), 'bulk.written', 'bulk', n / 10 % 100, n / 10 % 64, '{}',
                    now(), CASE n % 10 WHEN 0 THEN 'failed' WHEN 1 THEN 'pending' WHEN 2
                    THEN 'pending' ELSE 'published' END, n % 10 = 2,
                    CASE n % 10 WHEN 0 THEN 'no ' || n END
                FROM generate_series(1, 5000) AS n""")
        )
        await connection.execute(
            text("""INSERT INTO inspected_blocked_keys (aggregate_type, aggregate_id, position)
                SELECT 'bulk', n, 10 * n FROM generate_series(0, 99) AS n""")
        )


def questions(inspector: Inspector) -> list[Callable[[], Awaitable[Any]]]:
    failed = frozenset({RecordState.FAILED})
    return [
        inspector.overview,
        inspector.records,
        lambda: inspector.records(RecordFilter(states=PENDING), newest_first=False),
        lambda: inspector.records(RecordFilter(states=failed, error="no")),
        lambda: inspector.records(RecordFilter(event_type="nothing.*")),
        lambda: inspector.record("1"),
        lambda: inspector.key("bulk/1"),
        inspector.failures,
        inspector.blocked_keys,
        inspector.workers,
        inspector.event_types,
        inspector.pauses,
        inspector.audit,
    ]


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("planned_when_empty", [True, False])
async def test_no_question_reads_the_records_by_a_sequential_scan(
    engine: AsyncEngine, planned_when_empty: bool
) -> None:
    inspector = Inspector(outbox, engine)
    if planned_when_empty:
        for _ in range(ROUNDS):
            await inspector.overview()
            await inspector.failures()
            await inspector.blocked_keys()
    await fill(engine)
    for question in questions(inspector):
        await question()
    assert await rows_scanned(engine, "inspected") == 0


async def test_no_question_waits_for_writers_and_no_writer_for_a_question(
    engine: AsyncEngine,
) -> None:
    await fill(engine)
    inspector = Inspector(outbox, engine)
    async with engine.begin() as writer:
        await writer.execute(text("LOCK TABLE inspected IN EXCLUSIVE MODE"))
        for question in questions(inspector):
            await question()
    reader = Reader(outbox, engine)
    async with reader.ask("everything") as run, engine.begin() as writer:
        await run(text("SELECT count(*) FROM inspected"))
        await writer.execute(text("SET LOCAL lock_timeout = '5s'"))
        await writer.execute(text("LOCK TABLE inspected IN EXCLUSIVE MODE"))
        await writer.execute(text("UPDATE inspected SET updated_at = now()"))


async def test_a_table_that_is_being_altered_is_a_time_out(engine: AsyncEngine) -> None:
    inspector = Inspector(outbox, engine, time_limit=timedelta(seconds=0.3))
    async with engine.begin() as connection:
        await connection.execute(text("LOCK TABLE inspected IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(InspectionTimeoutError, match="the overview"):
            await inspector.overview()
    assert (await Inspector(outbox, engine).overview()).pending == 0


async def test_a_question_changes_nothing(engine: AsyncEngine) -> None:
    reader = Reader(outbox, engine)
    with pytest.raises(Exception, match="read-only transaction"):
        async with reader.ask("a change") as run:
            await run(text("DELETE FROM inspected"))


@pytest.mark.requirement("E10")
async def test_a_redacted_field_is_not_shown(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.execute(
            text(f"""INSERT INTO inspected (id, event_type, partition, payload, headers,
                occurred_at) VALUES (gen_random_uuid(), 'paid', 1,
                '{{"card": "{SECRET}", "password": "{SECRET}", "sum": 3}}',
                '{{"authorization": "{SECRET}"}}', now())""")
        )
    [record] = (await Inspector(outbox, engine).records()).records
    found = await Inspector(outbox, engine).record(str(record.position))
    assert SECRET not in str(found)
    assert found.payload["sum"] == 3
