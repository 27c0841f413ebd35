"""Positions in the order of commits, per key, with writers of every kind at once."""

import asyncio
from contextlib import suppress
from itertools import cycle, pairwise, product
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import UntypedEvent
from postroom.capture.commit_order import STRIPES
from tests.integration.capture.connections import (
    KINDS,
    WITHOUT_ORM,
    Kind,
    as_parameters,
    async_core,
    raw_asyncpg,
)
from tests.support.commit_order import relaxed, something, wait_until_blocked
from tests.support.rows import rows
from tests.support.waiting import FULL, PATIENCE

pytestmark = [pytest.mark.no_cover, pytest.mark.requirement("E13")]

MANY_KEYS = 20_000 if FULL else 3_500
"""With 10 parameters each, more than the 32,767 that a statement of asyncpg may have."""
STEPS = 10 if FULL else 3
HELD = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"

MAIN_PAIRS = [
    ("AsyncSession", "AsyncSession"),
    ("asyncpg", "psycopg"),
    ("psycopg-async", "Connection"),
    ("AsyncConnection", "Session"),
]
"""The first writer of a pair, and the second."""
OTHER_PAIRS = [*product(("Session",), WITHOUT_ORM), *product(WITHOUT_ORM, ("AsyncSession",))]
PAIRS = [
    *MAIN_PAIRS,
    *(pytest.param(*pair, marks=pytest.mark.extended) for pair in OTHER_PAIRS),
]


async def names(engine: AsyncEngine) -> list[str]:
    return [record.payload["name"] for record in await rows(engine)]


async def commit(kind: Kind, url: str, *events: UntypedEvent) -> None:
    async with kind(url) as transaction:
        await transaction.save(*events)


async def let_a_second_wait(engine: AsyncEngine, writing: asyncio.Task[None]) -> None:
    await wait_until_blocked(engine)
    assert not writing.done()


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_a_second_writer_of_a_key_waits_for_the_first_to_commit(
    engine: AsyncEngine, postgres_url: str, first: str, second: str
) -> None:
    async with KINDS[first](postgres_url) as transaction:
        await transaction.save(something(1, name="first"), something(2, name="other"))
        waiting = asyncio.create_task(
            commit(KINDS[second], postgres_url, something(1, name="second"))
        )
        await let_a_second_wait(engine, waiting)
    await asyncio.wait_for(waiting, PATIENCE)
    assert await names(engine) == ["first", "other", "second"]


@pytest.mark.parametrize("kind", as_parameters([*WITHOUT_ORM, "AsyncSession"]))
async def test_a_savepoint_rolled_back_does_not_lose_the_lock(
    engine: AsyncEngine, postgres_url: str, kind: str
) -> None:
    async with KINDS[kind](postgres_url) as transaction:
        with suppress(ZeroDivisionError):
            async with transaction.savepoint():
                await transaction.save(something(1, name="undone"))
                raise ZeroDivisionError
        await transaction.save(something(1, name="first"))
        waiting = asyncio.create_task(commit(async_core, postgres_url, something(1, name="second")))
        await let_a_second_wait(engine, waiting)
    await asyncio.wait_for(waiting, PATIENCE)
    assert await names(engine) == ["first", "second"]


async def test_writers_of_other_keys_and_of_none_do_not_wait(
    engine: AsyncEngine, postgres_url: str
) -> None:
    keyless = UntypedEvent(event_type="x", payload={"name": "keyless"})
    async with raw_asyncpg(postgres_url) as transaction:
        await transaction.save(something(1, name="last"), UntypedEvent(event_type="x", payload={}))
        await asyncio.wait_for(
            commit(async_core, postgres_url, something(2, name="other")), PATIENCE
        )
        await asyncio.wait_for(commit(async_core, postgres_url, keyless), PATIENCE)
        assert await names(engine) == ["other", "keyless"]


@pytest.mark.usefixtures("relaxed_tables")
async def test_relaxed_ordering_does_not_wait(engine: AsyncEngine, postgres_url: str) -> None:
    for kind in KINDS.values():
        async with raw_asyncpg(postgres_url) as first, kind(postgres_url) as second:
            await first.save(something(1), into=relaxed)
            await asyncio.wait_for(second.save(something(1), into=relaxed), PATIENCE)


async def test_writers_with_the_same_keys_in_another_order_do_not_deadlock(
    engine: AsyncEngine, postgres_url: str
) -> None:
    events = [something(key) for key in range(200 if FULL else 60)]

    async def write(kind: Kind, step: int) -> None:
        for _ in range(2):
            again = [something(event.aggregate_id) for event in events[::step]]
            await commit(kind, postgres_url, *again)

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as writers:
        for kind, step in zip(KINDS.values(), cycle((1, -1)), strict=False):
            writers.create_task(write(kind, step))


async def test_sixteen_writers_of_all_kinds_on_five_keys_are_numbered_in_commit_order(
    engine: AsyncEngine, postgres_url: str
) -> None:
    """Each takes its position first and its turn (a row lock) after: the order that goes wrong."""
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE turns (key int PRIMARY KEY, turn int)"))
        await connection.execute(text("INSERT INTO turns SELECT k, 0 FROM generate_series(0, 4) k"))
        await connection.execute(text("CREATE TABLE ledger (id uuid PRIMARY KEY, turn int)"))
    try:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as writers:
            for number, kind in zip(range(16), cycle(KINDS.values()), strict=False):
                writers.create_task(write_in_turns(kind, postgres_url, number))
        turns = await turns_by_key(engine)
    finally:
        async with engine.begin() as connection:
            await connection.execute(text("DROP TABLE turns, ledger"))
    assert sum(map(len, turns.values())) == 16 * STEPS
    for of_key in turns.values():
        assert all(before < after for before, after in pairwise(of_key))


async def write_in_turns(kind: Kind, url: str, number: int) -> None:
    for step in range(STEPS):
        key = (number * 7 + step * 3) % 5
        happened = something(key)
        async with kind(url) as transaction:
            await transaction.save(happened)
            turn = await transaction.execute(
                f"UPDATE turns SET turn = turn + 1 WHERE key = {key} RETURNING turn"
            )
            await transaction.execute(f"INSERT INTO ledger VALUES ('{happened.event_id}', {turn})")


async def turns_by_key(engine: AsyncEngine) -> dict[str, list[int]]:
    turns: dict[str, list[int]] = {}
    query = "SELECT aggregate_id, turn FROM outbox JOIN ledger USING (id) ORDER BY position"
    async with engine.connect() as connection:
        found: Any = await connection.execute(text(query))
        for key, turn in found:
            turns.setdefault(key, []).append(turn)
    return turns


@pytest.mark.parametrize("kind", ["asyncpg", "AsyncSession"])
async def test_thousands_of_keys_are_saved_under_a_bounded_number_of_locks(
    engine: AsyncEngine, postgres_url: str, kind: str
) -> None:
    async with KINDS[kind](postgres_url) as transaction:
        await transaction.save(*(something(key, name=str(key)) for key in range(MANY_KEYS)))
        assert STRIPES / 2 < await transaction.execute(HELD) <= STRIPES
    assert await names(engine) == [str(key) for key in range(MANY_KEYS)]
