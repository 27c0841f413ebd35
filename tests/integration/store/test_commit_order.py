"""Positions in the order of commits, per key, however many write at once."""

import asyncio
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Engine, Table, bindparam, event, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
from sqlalchemy.orm import Session

from postroom import Outbox, OutboxRecord, UntypedEvent
from postroom.capture.commit_order import STRIPES
from postroom.identity import uuid7
from tests.support.commit_order import relaxed, something, wait_until_blocked
from tests.support.shop import outbox
from tests.support.waiting import FULL, PATIENCE

pytestmark = pytest.mark.no_cover  # others cover the same, for less time

MANY_KEYS = 20_000 if FULL else 3_000
"""Many more than there are locks to share."""
STEPS = 30 if FULL else 12
HELD = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")


async def save(session: AsyncSession, into: Outbox, *events: UntypedEvent) -> None:
    await into.dispatcher(session).dispatch(events)
    await session.flush()


async def names_in_order(engine: AsyncEngine, table: Table) -> list[str]:
    async with engine.connect() as connection:
        payloads = await connection.scalars(select(table.c.payload).order_by(table.c.position))
        return [payload["name"] for payload in payloads]


async def test_a_second_writer_of_a_key_waits_for_the_first_to_commit(engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as first:
        await save(first, outbox, something(1, name="first"))
        await let_a_second_wait_for(first, engine)
    assert await names_in_order(engine, outbox.tables.records) == ["first", "second"]


async def let_a_second_wait_for(first: AsyncSession, engine: AsyncEngine) -> None:
    """Write the same key from a second session, and see that it waits for the first's commit."""
    async with AsyncSession(engine) as second:
        waiting = asyncio.create_task(save(second, outbox, something(1, name="second")))
        await wait_until_blocked(engine)
        await first.commit()
        await asyncio.wait_for(waiting, PATIENCE)
        await second.commit()


async def test_writers_of_other_keys_do_not_wait(engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as first, AsyncSession(engine) as second:
        await save(first, outbox, something(1, name="first"))
        await asyncio.wait_for(save(second, outbox, something(2, name="second")), PATIENCE)
        await second.commit()
        await first.commit()


async def test_records_without_a_key_do_not_wait(engine: AsyncEngine) -> None:
    anything = UntypedEvent(event_type="x", payload={"name": "any"})
    async with AsyncSession(engine) as first, AsyncSession(engine) as second:
        await save(first, outbox, something(1, name="first"), anything)
        other = UntypedEvent(event_type="x", payload={"name": "other"})
        await asyncio.wait_for(save(second, outbox, other), PATIENCE)
        await second.commit()
        await first.commit()


@pytest.mark.usefixtures("relaxed_tables")
async def test_relaxed_ordering_does_not_wait_and_can_be_overtaken(engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as first, AsyncSession(engine) as second:
        await save(first, relaxed, something(1, name="numbered first, committed last"))
        await asyncio.wait_for(save(second, relaxed, something(1, name="second")), PATIENCE)
        await second.commit()
        await first.commit()
    names = await names_in_order(engine, relaxed.tables.records)
    assert names == ["numbered first, committed last", "second"]


async def test_a_savepoint_rolled_back_does_not_lose_the_lock(engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as first:
        savepoint = await first.begin_nested()
        await save(first, outbox, something(1, name="undone"))
        await savepoint.rollback()
        await save(first, outbox, something(1, name="first"))
        await let_a_second_wait_for(first, engine)
    assert await names_in_order(engine, outbox.tables.records) == ["first", "second"]


async def test_two_writers_with_the_same_keys_in_another_order_do_not_deadlock(
    engine: AsyncEngine,
) -> None:
    keys = range(200)

    async def write(order: list[int]) -> None:
        for _ in range(5):
            async with AsyncSession(engine) as session:
                await save(session, outbox, *(something(key, name="x") for key in order))
                await session.commit()

    orders = (list(keys), list(reversed(keys)))
    await asyncio.wait_for(asyncio.gather(*map(write, orders)), PATIENCE)


async def test_sixteen_writers_on_ten_keys_are_numbered_in_commit_order(
    engine: AsyncEngine,
) -> None:
    """Each takes its position first and its turn (a row lock) after: the order that goes wrong."""
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE turns (key int PRIMARY KEY, turn int)"))
        await connection.execute(text("INSERT INTO turns SELECT k, 0 FROM generate_series(0, 9) k"))
        await connection.execute(text("CREATE TABLE ledger (id uuid PRIMARY KEY, turn int)"))
    try:
        async with asyncio.TaskGroup() as writers:
            for number in range(16):
                writers.create_task(write_in_turns(engine, number))
        async with engine.connect() as connection:
            turns = await turns_by_key(connection)
    finally:
        async with engine.begin() as connection:
            await connection.execute(text("DROP TABLE turns, ledger"))
    assert sum(len(of_key) for of_key in turns.values()) == 16 * STEPS
    for of_key in turns.values():
        assert all(before < after for before, after in pairwise(of_key))


async def write_in_turns(engine: AsyncEngine, number: int) -> None:
    async with AsyncSession(engine) as session:
        for step in range(STEPS):
            key = (number * 7 + step * 3) % 10
            happened = something(key, name=f"{number}/{step}")
            await save(session, outbox, happened)
            turn = await session.scalar(
                text("UPDATE turns SET turn = turn + 1 WHERE key = :key RETURNING turn"),
                {"key": key},
            )
            await session.execute(
                text("INSERT INTO ledger VALUES (:id, :turn)"),
                {"id": happened.event_id, "turn": turn},
            )
            await session.commit()


async def turns_by_key(connection: AsyncConnection) -> dict[str, list[int]]:
    rows = await connection.execute(
        text("SELECT aggregate_id, turn FROM outbox JOIN ledger USING (id) ORDER BY position")
    )
    turns: dict[str, list[int]] = {}
    for key, turn in rows:
        turns.setdefault(key, []).append(turn)
    return turns


async def test_thousands_of_keys_in_one_transaction_share_a_bounded_number_of_locks(
    engine: AsyncEngine,
) -> None:
    async with AsyncSession(engine) as session:
        await save(session, outbox, *(something(key, name=str(key)) for key in range(MANY_KEYS)))
        held = await session.scalar(HELD)
        await session.commit()
    assert held is not None
    assert STRIPES / 2 < held <= STRIPES
    names = await names_in_order(engine, outbox.tables.records)
    assert names == [str(key) for key in range(MANY_KEYS)]


@pytest.fixture(params=["sync_engine", "sqlite_engine"])
def database(request: pytest.FixtureRequest) -> Engine:
    """PostgreSQL and SQLite."""
    engine: Engine = request.getfixturevalue(request.param)
    return engine


def test_a_position_that_is_given_by_hand_is_kept(database: Engine) -> None:
    """As a restore or a copy does."""
    records = outbox.tables.records
    row = {
        "id": uuid7(),
        "event_type": "x",
        "payload": {},
        "partition": 0,
        "occurred_at": datetime.now(UTC),
    }
    with database.begin() as connection:
        connection.execute(insert(records).values(position=4711, **row))
        found = connection.scalars(select(records.c.position).where(records.c.position > 4710))
        assert found.all() == [4711]
        typed = bindparam("given", 4710, type_=records.c.position.type)
        assert connection.scalar(select(records.c.position).where(records.c.position > typed))


def test_a_saved_record_knows_its_position(database: Engine) -> None:
    with Session(database) as session:
        record = OutboxRecord(event_type="x", payload={}, aggregate_id="1")
        session.add(record)
        session.flush()
        assert record.position == 1


def test_the_locks_of_a_flush_are_taken_at_once_and_in_order(sync_engine: Engine) -> None:
    """Two transactions that took them in different orders could wait for each other for ever."""
    taken: list[list[int]] = []

    def note(_: Any, __: Any, statement: str, parameters: dict[str, Any], *___: Any) -> None:
        if statement.startswith("SELECT pg_advisory_xact_lock"):
            taken.append(parameters["stripes"])

    event.listen(sync_engine, "before_cursor_execute", note)
    with Session(sync_engine) as session:
        outbox.dispatcher(session).dispatch_sync([something(key) for key in range(300)])
        session.commit()
    event.remove(sync_engine, "before_cursor_execute", note)
    [stripes] = taken
    assert stripes == sorted(stripes)
    assert len(stripes) > 200


def test_a_savepoint_of_the_connection_gives_its_locks_back_too(sync_engine: Engine) -> None:
    with Session(sync_engine) as session:
        savepoint = session.connection().begin_nested()
        session.add(OutboxRecord(event_type="x", payload={}, aggregate_id="1"))
        session.flush()
        savepoint.rollback()
        session.add(OutboxRecord(event_type="x", payload={}, aggregate_id="1"))
        session.flush()
        assert session.scalar(HELD) == 1
