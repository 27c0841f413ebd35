"""SQLite's one lock: who waits for it in which order, and that a cancelled task leaves none."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom.database.database import Database, Run
from postroom.database.errors import is_conflict
from postroom.database.sqlite import BUSY_TIMEOUT
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


async def test_a_lock_that_another_process_keeps_is_a_conflict_and_no_outage(
    database: Database, sqlite_file: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database.sql, "_wait", 0.1)
    async with database.engine.begin() as connection:
        await connection.exec_driver_sql("BEGIN IMMEDIATE")
        with pytest.raises(OperationalError) as caught:
            await database.transact(partial(write, 1))
    assert is_conflict(caught.value)
    async with database.engine.connect() as connection:  # its next user waits for a lock as before
        waits = await connection.exec_driver_sql("PRAGMA busy_timeout")
        assert waits.scalar_one() == BUSY_TIMEOUT
    assert await database.transact(partial(write, 1)) == 1


async def write(number: int, run: Run) -> int:
    await run(text("SELECT 1"))
    return number


async def test_the_lock_is_taken_between_the_transactions_of_another_process(
    database: Database,
) -> None:
    """SQLite alone would look for it every 100 ms, and nearly always meet the next transaction."""
    got: list[int] = []

    def write_on() -> int:
        """Hold the lock nearly all the time, until the other one has had it ten times."""
        path = database.engine.url.database
        with closing(sqlite3.connect(str(path), isolation_level=None)) as other:
            for count in range(1000):
                if len(got) == 10:
                    return count
                other.execute("BEGIN IMMEDIATE")
                time.sleep(0.01)
                other.execute("COMMIT")
                time.sleep(0.001)
        return 1000

    await database.sql.prepare(database.engine)
    writing = asyncio.create_task(asyncio.to_thread(write_on))
    for number in range(10):
        got.append(await database.transact(partial(write, number)))
    assert await writing < 100


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
