"""SQLite: its SQL and its transactions. One writer at a time, and none during a delivery."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import StaticPool
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from postroom.errors import ConfigurationError

BUSY_TIMEOUT = 5000
"""Milliseconds to wait for another writer."""
STEPS = 10_000
"""How many steps of SQLite's machine lie between two looks at the clock: about 1 ms."""
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
    shielded = True  # else a cancelled statement may keep its lock for as long as the process

    def __init__(self, time_limit: timedelta | None = None) -> None:
        self._time_limit = time_limit
        self._line: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

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
        """Take the write lock first, except for a snapshot: later it may be refused.

        Tasks of one process take turns in the order in which they came: SQLite gives its lock to
        any of the waiting connections, so that one of many writers could wait for too long.
        """
        async with nullcontext() if snapshot else self._turn(), engine.begin() as connection:
            await connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_TIMEOUT}")
            if not await _in_transaction(connection):  # an engine may be set up to begin by itself
                await connection.exec_driver_sql("BEGIN" if snapshot else "BEGIN IMMEDIATE")
            async with _interrupted_after(connection, self._time_limit):
                yield connection

    def _turn(self) -> asyncio.Lock:
        """Return the lock of this event loop: a lock cannot be waited for in another one."""
        loop = asyncio.get_running_loop()
        if self._line is None or self._line[0] is not loop:
            self._line = loop, asyncio.Lock()
        return self._line[1]

    def after(self, seconds: str) -> str:
        # To the millisecond, with the six digits that SQLAlchemy reads and writes.
        return f"(strftime('%Y-%m-%d %H\\:%M\\:%f', :now, ({seconds}) || ' seconds') || '000')"

    def seconds_between(self, earlier: str, later: str) -> str:
        return f"(julianday({later}) - julianday({earlier})) * 86400"

    def whole(self, number: str) -> str:
        return f"CAST({number} AS integer)"

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

    def matches(self, column: str, parameter: str) -> str:
        return f"{column} GLOB :{parameter}"  # LIKE takes no notice of case

    def pattern(self, text: str) -> str:
        return text.replace("[", "[[]").replace("?", "[?]")

    def contains(self, column: str, parameter: str) -> str:
        return f"instr(lower({column}), lower(:{parameter})) > 0"

    def moment(self, parameter: str) -> str:
        return f":{parameter}"

    def time(self, moment: datetime) -> Any:
        return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")

    def estimate(self, table: str) -> str:
        return f"(SELECT coalesce(max(rowid) - min(rowid) + 1, 0) FROM {table})"

    def merged(self, column: str, parameter: str) -> str:
        return f"json_patch({column}, :{parameter})"

    def clock(self, shift: timedelta) -> Mapping[str, Any]:
        return {"now": self.time(datetime.now(UTC) + shift)}

    def numbers(self, values: Collection[int]) -> Any:
        return json.dumps(list(values))


async def _use_wal(connection: AsyncConnection) -> None:
    await connection.exec_driver_sql("SELECT 1")
    if await _in_transaction(connection):
        await connection.exec_driver_sql("ROLLBACK")
    await connection.exec_driver_sql("PRAGMA journal_mode = WAL")


@asynccontextmanager
async def _interrupted_after(
    connection: AsyncConnection, time_limit: timedelta | None
) -> AsyncIterator[None]:
    """Interrupt what runs on a connection for longer than this: SQLite has no such setting."""
    if time_limit is None:
        yield
        return
    raw = await connection.get_raw_connection()
    driver: Any = raw.driver_connection
    end = time.monotonic() + time_limit.total_seconds()
    await driver.set_progress_handler(lambda: time.monotonic() > end, STEPS)
    try:
        yield
    finally:
        with suppress(ValueError):  # SQLAlchemy closes the connection of a cancelled statement
            await driver.set_progress_handler(None, 0)


async def _in_transaction(connection: AsyncConnection) -> bool:
    raw = await connection.get_raw_connection()
    return bool(raw.driver_connection.in_transaction)  # type: ignore[union-attr]
