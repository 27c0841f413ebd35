"""The database of an outbox: its connections, its dialect, and how statements are run."""

import asyncio
import json
import logging
import random
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

from sqlalchemy import CursorResult, Engine, Row, Table, TextClause
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from postroom.errors import ConfigurationError
from postroom.record import Key
from postroom.store.errors import (
    LOCKED,
    POOLER_REMEDY,
    POOLER_STATES,
    describe,
    is_conflict,
    sql_state,
)
from postroom.store.postgres import PostgresDialect
from postroom.store.sqlite import SQLiteDialect
from postroom.tables.tables import OutboxTables

logger = logging.getLogger("postroom.store")

T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]
Dialect = PostgresDialect | SQLiteDialect
LEASE: Final = timedelta(seconds=10)
"""The default lease; every transaction ends by itself within it."""
HEARTBEAT: Final = LEASE.total_seconds() / 4
"""Seconds between heartbeats at most. A lease is renewed four times before it ends."""
ATTEMPTS: Final = 5
"""How often a transaction is tried that conflicts with another one."""


def no_shift() -> timedelta:
    """Return that the database's clock is right."""
    return timedelta()


class Database:
    """Runs the statements of an outbox. `shift` is added to the database's clock, by tests."""

    def __init__(
        self,
        engine: AsyncEngine,
        tables: OutboxTables,
        *,
        lease: timedelta = LEASE,
        shift: Callable[[], timedelta] = no_shift,
    ) -> None:
        self.engine = engine
        self.tables = tables
        self.sql = dialect_of(engine, tables, lease)
        self._shift = shift
        self.records, self.leases = self._name(tables.records), self._name(tables.leases)
        self.workers, self.blocked = self._name(tables.workers), self._name(tables.blocked_keys)

    async def write(self, work: Work[T]) -> T:
        """Do some work in a transaction, again if it conflicts with another transaction.

        Not if it has waited for a lock already, for as long as a transaction may.
        """
        for attempts_left in range(ATTEMPTS - 1, -1, -1):
            try:
                return await self._do(self.sql.transaction, work)
            except Exception as error:
                if not attempts_left or not is_conflict(error) or sql_state(error) == LOCKED:
                    raise
                logger.info("postroom: tries a transaction again: %s", describe(error))
                await asyncio.sleep(random.uniform(0, 0.1))  # noqa: S311 - not a secret
        raise AssertionError  # the last attempt returns or raises

    async def read(self, work: Work[T]) -> T:
        """Do some work in a transaction that reads one moment of the database."""
        return await self._do(self.sql.snapshot, work)

    async def fetch(self, statement: TextClause, **values: Any) -> Sequence[Row[Any]]:
        """Run one statement in a transaction of its own; return its rows."""

        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            result = await self.run(connection, statement, **values)
            return result.all() if result.returns_rows else ()

        return await self.write(work)

    async def inspect(self, work: Work[T]) -> T:
        """Do some work in a transaction without settings of ours.

        asyncpg looks up types that it does not know, and would leave jit=off with the connection.
        """
        return await self._do(self._plain, work)

    @asynccontextmanager
    async def _plain(self, engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        await self.sql.prepare(engine)
        async with engine.begin() as connection:
            yield connection

    async def run(
        self, connection: AsyncConnection, statement: TextClause, **values: Any
    ) -> CursorResult[Any]:
        """Run a statement with these values and the clock's."""
        clock = self.sql.clock(self._shift())
        return await connection.execute(statement, {**clock, **values})

    async def run_at(
        self, connection: AsyncConnection, statement: TextClause, positions: Collection[int]
    ) -> None:
        """Run a statement about the records at some positions, if there are any."""
        if positions:
            numbers = self.sql.numbers(sorted(positions))
            await self.run(connection, statement, positions=numbers)

    async def _do(
        self,
        begin: Callable[[AsyncEngine], AbstractAsyncContextManager[AsyncConnection]],
        work: Work[T],
    ) -> T:
        async def transact() -> T:
            try:
                async with begin(self.engine) as connection:
                    return await work(connection)
            except Exception as error:
                if sql_state(error) in POOLER_STATES:
                    raise ConfigurationError(POOLER_REMEDY) from error
                raise

        return await (finish(transact()) if self.sql.shielded else transact())

    def _name(self, table: Table) -> str:
        """Return a table's name, quoted as the database wants it."""
        preparer = self.engine.dialect.identifier_preparer
        # A driver that wants % doubled has text() do that once more.
        percent = "%%" if getattr(preparer, "_double_percents", False) else "%"
        return preparer.format_table(table).replace(percent, "%").replace(":", r"\:")


def dialect_of(engine: AsyncEngine, tables: OutboxTables, lease: timedelta) -> Dialect:
    """Return the dialect of an engine. Raises ConfigurationError for one that has none."""
    if not isinstance(engine, AsyncEngine):
        raise ConfigurationError(
            f"the relay needs an AsyncEngine, not {type(engine).__name__}. Make one beside your"
            " own with create_async_engine(…) and the same URL, with asyncpg or aiosqlite."
        )
    match engine.dialect.name:
        case "postgresql":
            return PostgresDialect(tables.records.fullname, lease)
        case "sqlite":
            return SQLiteDialect()
        case other:
            raise ConfigurationError(
                f"postroom has no store for {other}. Use PostgreSQL or SQLite."
            )


def own_engine(engine: AsyncEngine, tables: OutboxTables, lease: timedelta) -> AsyncEngine:
    """Return an engine like this one with connections of its own, and the relay's settings.

    Handlers may use up the application's connections; the relay could not renew its leases then.
    """
    own = Engine(engine.pool.recreate(), engine.dialect, engine.url, hide_parameters=True)
    result = AsyncEngine(own)
    dialect_of(engine, tables, lease).install(result)
    return result


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Do something to its end, also when the task that waits for it is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # which would be reported as never looked at
        raise


def key_of(row: Any) -> Key:
    """Return the key of a row or record that has one."""
    return Key(row.aggregate_type or "", row.aggregate_id)


def keys_of(rows: Iterable[Any]) -> list[Key]:
    """Return the keys of rows or records, each once, without those that have none."""
    return sorted({key_of(row) for row in rows if row.aggregate_id is not None})


def as_rows(objects: Iterable[Any]) -> str:
    """Return dicts or keys as JSON, for a statement that takes them as rows."""
    return json.dumps([each._asdict() if isinstance(each, Key) else each for each in objects])
