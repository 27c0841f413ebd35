"""SQLite: its SQL and its transactions. One writer at a time, and none during a delivery."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Set
from contextlib import asynccontextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from sqlalchemy import StaticPool, Table
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from postroom.database.errors import is_conflict
from postroom.errors import ConfigurationError
from postroom.process import is_alive

BUSY_TIMEOUT = 5000
"""Milliseconds to wait for another process, once a transaction has begun."""
FIRST_WAIT = 20
"""Milliseconds that SQLite waits for the write lock at first."""
LOCK_PAUSE = 0.003
"""Seconds between further attempts: SQLite would soon look for the lock every 100 ms only."""
LONGEST_WAIT = 2.0
"""Seconds to wait for the write lock, or a fifth of the lease: less than a heartbeat may take."""
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

    def __init__(self, lease: timedelta, time_limit: timedelta | None = None) -> None:
        self._wait = min(LONGEST_WAIT, lease.total_seconds() / 5)
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
            try:
                if not await _in_transaction(connection):  # an engine may begin by itself
                    begin = connection.exec_driver_sql
                    await (begin("BEGIN") if snapshot else self._lock(connection))
            finally:  # the connection may be the application's
                await connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_TIMEOUT}")
            async with _interrupted_after(connection, self._time_limit):
                yield connection

    async def _lock(self, connection: AsyncConnection) -> None:
        """Take the write lock, also from other processes that write one transaction after another.

        Raises OperationalError (database is locked) if one of them keeps it for too long.
        """
        end = time.monotonic() + self._wait
        await connection.exec_driver_sql(f"PRAGMA busy_timeout = {FIRST_WAIT}")
        while True:
            try:
                await connection.exec_driver_sql("BEGIN IMMEDIATE")
                return
            except OperationalError as error:
                if not is_conflict(error) or time.monotonic() >= end:
                    raise
            await connection.exec_driver_sql("PRAGMA busy_timeout = 0")
            await asyncio.sleep(LOCK_PAUSE)

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

    def counted(self, change: str) -> str:
        return f"{change} RETURNING 1 AS number"

    def within(self, select: str) -> str:
        return f"IN ({select})"

    def among(self, parameter: str) -> str:
        return f"IN (SELECT value FROM json_each(:{parameter}))"

    def not_among(self, column: str, parameter: str, type_: str = "integer") -> str:
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

    def writers(self, table: str) -> str:
        return ""

    def server(self, table: Table) -> str:
        # The last position that was given out: it goes back where an older file is restored.
        sequence = f'"{table.schema}".sqlite_sequence' if table.schema else "sqlite_sequence"
        name = table.name.replace("'", "''").replace(":", r"\:")
        return f"(SELECT coalesce(max(seq), 0) FROM {sequence} WHERE name = '{name}')"

    def is_another(self, server: int, before: int) -> bool:
        return server < before

    def numbers(self, values: Collection[Any]) -> Any:
        return json.dumps(list(values))


class Renewable(Protocol):
    """A lease, as a look at it finds it."""

    @property
    def worker(self) -> str | None: ...
    @property
    def leased_until(self) -> Any: ...


class Renewals:
    """Knows which workers of this host renew their leases, whatever the clock says.

    SQLite's clock is this machine's, and may be set. So a process that exists has lost its leases
    only when it has not renewed them for as long as a lease lasts.
    """

    def __init__(self) -> None:
        self._last: dict[str | None, tuple[Any, float]] = {}
        """Until when each worker had leases at the last look, and since when so long."""

    def living(self, leases: Iterable[Renewable], length: timedelta) -> Set[str | None]:
        """Return the workers whose leases have not expired, also if the clock says so."""
        now = time.monotonic()
        until = {each.worker: each.leased_until for each in leases}
        for worker in until:
            if self._last.get(worker, ("", now))[0] != until[worker]:
                self._last[worker] = until[worker], now
        since = now - length.total_seconds()
        return {each for each in until if self._last[each][1] > since and is_alive(each or "")}


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
