"""SQLite's one lock: who waits for it in which order, and that a cancelled task leaves none."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom.database.database import Database, Run
from postroom.store.store import Store
from tests.support.shop import outbox

WRITERS = 20


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")
    database = Database(engine, outbox.tables)
    yield database
    await database.close()


async def serve(database: Database) -> list[int]:
    """Have writers wait for a transaction; give them in the order in which they wrote."""
    served: list[int] = []

    async def write(number: int, run: Run) -> None:
        await run(text("SELECT 1"))
        served.append(number)

    writing = []
    async with database.transaction():
        for number in range(WRITERS):
            work = database.transact(partial(write, number))
            writing.append(asyncio.create_task(work))
            await asyncio.sleep(0)  # until it waits
    await asyncio.gather(*writing)
    return served


async def test_writers_take_turns_in_the_order_in_which_they_came(database: Database) -> None:
    assert await serve(database) == list(range(WRITERS))


def test_they_do_so_in_one_event_loop_after_another(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")
    database = Database(engine, outbox.tables)

    async def serve_and_close() -> list[int]:
        try:
            return await serve(database)
        finally:
            await database.close()

    for _ in range(2):
        assert asyncio.run(serve_and_close()) == list(range(WRITERS))


async def test_who_only_reads_waits_for_no_writer(database: Database) -> None:
    await database.sql.prepare(database.engine)
    async with database.transaction(), database.transaction(snapshot=True) as run:
        assert await run(text("SELECT 1"))


async def test_a_writer_that_is_cancelled_leaves_its_turn_to_the_next(database: Database) -> None:
    async def write(run: Run) -> str:
        await run(text("SELECT 1"))
        return "written"

    async with database.transaction():
        cancelled = asyncio.create_task(database.transact(write))
        await asyncio.sleep(0)
        cancelled.cancel()
    assert await database.transact(write) == "written"
    with pytest.raises(asyncio.CancelledError):
        await cancelled


def cancel_amid(engine: AsyncEngine, words: str, task: "asyncio.Task[Any]") -> None:
    """Cancel a task while SQLite runs the statement in which these words are."""
    loop = asyncio.get_running_loop()

    def trace(statement: str) -> None:  # called in the connection's thread
        if words in statement:
            loop.call_soon_threadsafe(task.cancel)

    @event.listens_for(engine.sync_engine, "connect")
    def connected(connection: Any, record: Any) -> None:
        connection.run_async(lambda driver: driver.set_trace_callback(trace))


async def poll(store: Store) -> None:
    await store.open()
    await store.leases.poll("a worker", lease=timedelta(seconds=30))


@pytest.mark.parametrize("statement", ["PRAGMA journal_mode", "SELECT l.partition"])
async def test_a_relay_that_is_cancelled_amid_a_statement_leaves_no_lock(
    database: Database, sqlite_file: AsyncEngine, statement: str
) -> None:
    task = asyncio.create_task(poll(Store(database.engine, outbox.tables)))
    cancel_amid(database.engine, statement, task)
    with pytest.raises(asyncio.CancelledError):
        await task
    async with sqlite_file.connect() as connection:
        await connection.exec_driver_sql("PRAGMA busy_timeout = 0")
        checkpoint = await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        assert checkpoint.one()[0] == 0, "somebody reads or writes"
