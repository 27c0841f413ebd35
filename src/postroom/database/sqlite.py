"""SQLite: its SQL and its transactions. One writer at a time, and none during a delivery."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import StaticPool
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from postroom.errors import ConfigurationError

BUSY_TIMEOUT = 5000
"""Milliseconds to wait for another writer."""
WAL_PAUSE = 50
"""Milliseconds between attempts to change the file's mode."""


class SQLiteDialect:
    """SQLite: one writer, who locks the whole file. `PostgresDialect` says what the pieces are."""

    now = ":now"
    share_lock = ""
    lock = skip_locked = ""
    try_lock = "SELECT 1"  # there is one writer
    typed = False
    shares_work = False
    shielded = True  # else the thread of a cancelled task may keep the write lock

    def install(self, engine: AsyncEngine) -> None:
        """Do nothing: SQLite has no settings to apply."""

    async def prepare(self, engine: AsyncEngine) -> None:
        """Switch to WAL mode, in which readers and the writer do not wait for each other."""
        if isinstance(engine.pool, StaticPool):
            raise ConfigurationError(
                "a relay cannot share the one connection of an in-memory SQLite database with the"
                " application. Use a file: sqlite+aiosqlite:///shop.db."
            )
        async with engine.connect() as connection:
            for attempts_left in range(BUSY_TIMEOUT // WAL_PAUSE, -1, -1):
                try:
                    await _use_wal(connection)
                    return
                except OperationalError:  # this statement does not wait for others by itself
                    if attempts_left == 0:
                        raise
                    await asyncio.sleep(WAL_PAUSE / 1000)

    @asynccontextmanager
    async def begin(self, engine: AsyncEngine, *, snapshot: bool) -> AsyncIterator[AsyncConnection]:
        """Take the write lock first, except for a snapshot: later it may be refused."""
        async with engine.begin() as connection:
            await connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_TIMEOUT}")
            if not await _in_transaction(connection):  # an engine may be set up to begin by itself
                await connection.exec_driver_sql("BEGIN" if snapshot else "BEGIN IMMEDIATE")
            yield connection

    def after(self, seconds: str) -> str:
        # To the millisecond, with the six digits that SQLAlchemy reads and writes.
        return f"(strftime('%Y-%m-%d %H\\:%M\\:%f', :now, ({seconds}) || ' seconds') || '000')"

    def seconds_between(self, earlier: str, later: str) -> str:
        return f"(julianday({later}) - julianday({earlier})) * 86400"

    def text(self, column: str) -> str:
        # Bytes, which no column is meant to hold, need not be text.
        return (
            f"CASE typeof({column}) WHEN 'blob' THEN hex({column}) ELSE CAST({column} AS text) END"
        )

    def identity(self, column: str) -> str:
        return self.text(column)

    def rows(self, name: str, columns: Mapping[str, str]) -> str:
        values = ", ".join(f"json_extract(value, '$.{each}') AS {each}" for each in columns)
        return f"(SELECT {values} FROM json_each(:{name})) AS {name}"

    def each(self, source: str, table: str, condition: str) -> str:
        picked = f"SELECT r.rowid FROM {table} r WHERE {condition}"
        return f"{source} CROSS JOIN {table} AS w ON w.rowid IN ({picked})"

    def within(self, select: str) -> str:
        return f"IN ({select})"

    def among(self, parameter: str) -> str:
        return f"IN (SELECT value FROM json_each(:{parameter}))"

    def not_among(self, column: str, parameter: str) -> str:
        return f"{column} NOT IN (SELECT value FROM json_each(:{parameter}))"

    def clock(self, shift: timedelta) -> Mapping[str, Any]:
        now = datetime.now(UTC) + shift
        return {"now": now.strftime("%Y-%m-%d %H:%M:%S.%f")}

    def numbers(self, values: Collection[int]) -> Any:
        return json.dumps(list(values))


async def _use_wal(connection: AsyncConnection) -> None:
    await connection.exec_driver_sql("SELECT 1")
    if await _in_transaction(connection):
        await connection.exec_driver_sql("ROLLBACK")
    await connection.exec_driver_sql("PRAGMA journal_mode = WAL")


async def _in_transaction(connection: AsyncConnection) -> bool:
    raw = await connection.get_raw_connection()
    return bool(raw.driver_connection.in_transaction)  # type: ignore[union-attr]
