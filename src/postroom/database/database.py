"""The database of an outbox: its connections, its dialect, and how statements are run."""

import asyncio
import inspect
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
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from sqlalchemy import Engine, Table, TextClause
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.database.errors import LOCKED, describe, explain_pooler, is_conflict, sql_state
from postroom.database.postgres import PostgresDialect
from postroom.database.sqlite import SQLiteDialect
from postroom.database.transactions import Dialect, EngineTransactions, Execute, Transactions
from postroom.errors import ConfigurationError
from postroom.record import Key
from postroom.tables.tables import OutboxTables

logger = logging.getLogger("postroom.store")

P = ParamSpec("P")
T = TypeVar("T")
LEASE: Final = timedelta(seconds=10)
"""The default lease; every transaction ends by itself within it."""
HEARTBEAT: Final = LEASE.total_seconds() / 4
"""Seconds between heartbeats at most. A lease is renewed four times before it ends."""
ATTEMPTS: Final = 5
"""How often a transaction is tried that conflicts with another one."""


class Run(Protocol):
    """Runs a statement in a transaction, with these values and the clock's; returns its rows."""

    async def __call__(self, statement: TextClause, /, **values: Any) -> Sequence[Any]: ...


class Database:
    """Runs the statements of an outbox. `shift` is added to the database's clock, by tests.

    `keep_connections`: it has the engine to itself, and keeps what it has connected until `close`.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        tables: OutboxTables,
        *,
        lease: timedelta = LEASE,
        shift: Callable[[], timedelta] = timedelta,
        keep_connections: bool = False,
    ) -> None:
        self.engine = engine
        self.tables = tables
        self.sql = dialect_of(engine, tables, lease)
        self._transactions = _transactions(engine, self.sql, keep=keep_connections)
        self._shift = shift
        self.records, self.leases = self._name(tables.records), self._name(tables.leases)
        self.workers, self.blocked = self._name(tables.workers), self._name(tables.blocked_keys)

    @asynccontextmanager
    async def transaction(self, *, snapshot: bool = False) -> AsyncIterator[Run]:
        """Begin a transaction. A snapshot only reads, one moment of the database."""
        try:
            async with self._transactions.begin(snapshot=snapshot) as execute:
                yield partial(self._run, execute)
        except Exception as error:
            explain_pooler(error)
            raise

    async def fetch(
        self, statement: TextClause, /, *, snapshot: bool = False, **values: Any
    ) -> Sequence[Any]:
        """Run one statement in a transaction of its own; return its rows."""
        fetch = partial(self._transactions.fetch, snapshot=snapshot)
        return await self._try(partial(self._run, fetch, statement, **values))

    async def transact(self, work: Callable[[Run], Awaitable[T]]) -> T:
        """Do some work in a transaction, again if it conflicts with another transaction.

        Not if it has waited for a lock already, for as long as a transaction may.
        """

        async def attempt() -> T:
            async with self.transaction() as run:
                return await work(run)

        return await self._try(attempt)

    async def close(self) -> None:
        """Close the connections that it keeps, and the engine's."""
        await self._transactions.close()
        await self.engine.dispose()

    async def _try(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        for attempts_left in range(ATTEMPTS - 1, -1, -1):
            try:
                return await (finish(attempt()) if self.sql.shielded else attempt())
            except Exception as error:
                explain_pooler(error)
                if not attempts_left or not is_conflict(error) or sql_state(error) == LOCKED:
                    raise
                logger.info("postroom: tries a transaction again: %s", describe(error))
                await asyncio.sleep(random.uniform(0, 0.1))  # noqa: S311 - not a secret
        raise AssertionError  # the last attempt returns or raises

    async def run_at(self, run: Run, statement: TextClause, positions: Collection[int]) -> None:
        """Run a statement about the records at some positions, if there are any."""
        if positions:
            await run(statement, positions=self.sql.numbers(sorted(positions)))

    async def _run(
        self, execute: Execute, statement: TextClause, /, **values: Any
    ) -> Sequence[Any]:
        return await execute(statement, {**self.sql.clock(self._shift()), **values})

    def _name(self, table: Table) -> str:
        """Return a table's name, quoted as the database wants it."""
        preparer = self.engine.dialect.identifier_preparer
        # A driver that wants % doubled has text() do that once more.
        percent = preparer.quote_identifier("%").strip('"')
        return preparer.format_table(table).replace(percent, "%").replace(":", r"\:")


class HasDatabase(Protocol):
    """A part of the store."""

    database: Database


S = TypeVar("S", bound=HasDatabase)


def transaction(
    method: Callable[Concatenate[S, Run, P], Awaitable[T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Have each call of a method be a transaction: the method gets `run`, callers do not give it.

    It is called again if the transaction conflicts with another one.
    """

    @wraps(method)
    async def call(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return await self.database.transact(lambda run: method(self, run, *args, **options))

    known = inspect.signature(method)
    shown = [each for each in known.parameters.values() if each.name != "run"]
    call.__signature__ = known.replace(parameters=shown)  # type: ignore[attr-defined]
    return call


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


def _transactions(engine: AsyncEngine, sql: Dialect, *, keep: bool) -> Transactions:
    if engine.dialect.driver != "asyncpg" or not isinstance(sql, PostgresDialect):
        return EngineTransactions(engine, sql)
    from postroom.database.asyncpg import AsyncpgTransactions  # it may not be installed

    return AsyncpgTransactions(engine, sql, keep=keep)


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


def as_rows(objects: Iterable[Any]) -> str:
    """Return dicts or keys as JSON, for a statement that takes them as rows."""
    return json.dumps([each._asdict() if isinstance(each, Key) else each for each in objects])
