"""The database of an outbox: its connections, its dialect, and how statements are run."""

import asyncio
import inspect
import json
import logging
import random
import time
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
from functools import cached_property, partial, wraps
from operator import attrgetter
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from sqlalchemy import Engine, MetaData, Table, TextClause, event
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
STATEMENT_OPTIONS: Final = frozenset(
    (
        "isolation_level",
        "max_row_buffer",
        "no_parameters",
        "postgresql_deferrable",
        "postgresql_readonly",
        "stream_results",
        "yield_per",
    )
)
"""Options of an engine that are for the application's statements, not for the relay's."""
ATTEMPTS: Final = 5
"""How often a transaction is tried that conflicts with another one."""


class Run(Protocol):
    """Runs a statement in a transaction, with these values and the clock's; returns its rows."""

    async def __call__(self, statement: TextClause, /, **values: Any) -> Sequence[Any]: ...


class Database:
    """Runs the statements of an outbox. `shift` is added to the database's clock, by tests.

    `keep_connections`: it has the engine to itself, and keeps what it has connected until `close`.
    `time_limit`: it only reads, and a statement that takes longer is ended.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        tables: OutboxTables,
        *,
        lease: timedelta = LEASE,
        shift: Callable[[], timedelta] = timedelta,
        keep_connections: bool = False,
        time_limit: timedelta | None = None,
    ) -> None:
        self.engine = engine
        self.tables = tables
        self.sql = dialect_of(engine, tables, lease, time_limit)
        self._keep_connections = keep_connections
        self._shift = shift
        self.watch: Callable[[str, float], None] | None = None
        """Is called with the name of each statement and the seconds that it took."""
        self._names: dict[TextClause, str] = {}
        self.records, self.leases = self._name(tables.records), self._name(tables.leases)
        self.workers, self.blocked = self._name(tables.workers), self._name(tables.blocked_keys)
        self.attempts, self.pauses = self._name(tables.attempts), self._name(tables.pauses)
        self.audit, self.inbox = self._name(tables.audit), self._name(tables.inbox)
        sql = self.sql
        self.server = sql.server(translated(engine, tables.records))
        ids = sql.not_among(sql.identity("id"), "ids", "uuid")
        self.chosen = f"position {sql.among('positions')} AND NOT ({ids})"
        """Picks records by their positions and ids, as `run_on` passes them."""

    @cached_property
    def _transactions(self) -> Transactions:
        """At the first use: listeners may be added after the engine and the relay are made."""
        return _transactions(self.engine, self.sql, keep=self._keep_connections)

    @asynccontextmanager
    async def transaction(self, *, snapshot: bool = False) -> AsyncIterator[Run]:
        """Begin a transaction. A snapshot only reads, one moment of the database."""
        try:
            async with self._transactions.begin(snapshot=snapshot) as execute:
                yield partial(self._run, execute)
                ended = time.perf_counter()
            if self.watch is not None:
                self.watch("commit", time.perf_counter() - ended)
        except Exception as error:
            explain_pooler(error)
            raise

    async def fetch(
        self, statement: TextClause, /, *, snapshot: bool = False, **values: Any
    ) -> Sequence[Any]:
        """Run one statement in a transaction of its own; return its rows."""
        fetch = partial(self._transactions.fetch, snapshot=snapshot)
        return await self._try(partial(self._run, fetch, statement, **values))

    async def transact(self, work: Callable[[Run], Awaitable[T]], *, snapshot: bool = False) -> T:
        """Do some work in a transaction, again if it conflicts with another transaction.

        Not if it has waited for a lock already, for as long as a transaction may.
        """

        async def attempt() -> T:
            async with self.transaction(snapshot=snapshot) as run:
                return await work(run)

        return await self._try(attempt)

    async def uncut(self, work: Coroutine[Any, Any, T]) -> T:
        """Run statements to their end on SQLite, also when the task is cancelled meanwhile."""
        return await (finish(work) if self.sql.shielded else work)

    async def close(self) -> None:
        """Close the connections that it keeps, and the engine's."""
        await self._transactions.close()
        await self.engine.dispose()

    async def _try(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        for attempts_left in range(ATTEMPTS - 1, -1, -1):
            try:
                return await self.uncut(attempt())
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

    async def run_on(
        self, run: Run, statement: TextClause, records: Collection["Positioned"]
    ) -> Sequence[Any]:
        """Run a statement about records that were claimed before, if there are any.

        A record is its id: where commits were lost, its position may be another record's by now.
        """
        if not records:
            return ()
        ordered = sorted(records, key=attrgetter("position"))
        ids = self.sql.numbers([each.id for each in ordered])
        positions = self.sql.numbers([each.position for each in ordered])
        return await run(statement, positions=positions, ids=ids)

    async def fetch_on(
        self, statement: TextClause, records: Collection["Positioned"]
    ) -> Sequence[Any]:
        """Do so in a transaction of its own."""
        return await self.run_on(self.fetch, statement, records)

    async def _run(
        self, execute: Execute, statement: TextClause, /, **values: Any
    ) -> Sequence[Any]:
        values = {**self.sql.clock(self._shift()), **values}
        if self.watch is None:
            return await execute(statement, values)
        began = time.perf_counter()
        try:
            return await execute(statement, values)
        finally:  # one that is cut off by a time-out, too
            self.watch(self._names.get(statement, "other"), time.perf_counter() - began)

    def name_statements(self, part: object) -> None:
        """Name the statements of a part of the store by its module and its attributes."""
        module = type(part).__module__.rpartition(".")[2]
        for name, value in vars(part).items():
            if isinstance(value, TextClause):
                self._names[value] = f"{module}.{name.strip('_')}"

    def _name(self, table: Table) -> str:
        """Return a table's name and schema, quoted as the database wants it."""
        preparer = self.engine.dialect.identifier_preparer
        # A driver that wants % doubled has text() do that once more.
        percent = preparer.quote_identifier("%").strip('"')
        named = preparer.format_table(translated(self.engine, table))
        return named.replace(percent, "%").replace(":", r"\:")


class Positioned(Protocol):
    """A claimed record."""

    id: Any
    position: int


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


def dialect_of(
    engine: AsyncEngine,
    tables: OutboxTables,
    lease: timedelta,
    time_limit: timedelta | None = None,
) -> Dialect:
    """Return the dialect of an engine. Raises ConfigurationError for one that has none."""
    if not isinstance(engine, AsyncEngine):
        raise ConfigurationError(
            f"the relay needs an AsyncEngine, not {type(engine).__name__}. Make one beside your"
            " own with create_async_engine(…) and the same URL, with asyncpg or aiosqlite."
        )
    match engine.dialect.name:
        case "postgresql":
            name = translated(engine, tables.records).fullname
            return PostgresDialect(name, lease, time_limit)
        case "sqlite":
            return SQLiteDialect(lease, time_limit)
        case other:
            raise ConfigurationError(
                f"postroom has no store for {other}. Use PostgreSQL or SQLite."
            )


def _transactions(engine: AsyncEngine, sql: Dialect, *, keep: bool) -> Transactions:
    # Listeners to `begin` are called by SQLAlchemy alone.
    has_listeners = bool(engine.sync_engine.dispatch.begin)
    if engine.dialect.driver != "asyncpg" or has_listeners or not isinstance(sql, PostgresDialect):
        return EngineTransactions(engine, sql)
    from postroom.database.asyncpg import AsyncpgTransactions  # it may not be installed

    return AsyncpgTransactions(engine, sql, keep=keep)


def own_engine(engine: AsyncEngine, tables: OutboxTables, lease: timedelta) -> AsyncEngine:
    """Return an engine like this one with connections of its own, and the relay's settings.

    Handlers may use up the application's connections; the relay could not renew its leases then.
    """
    given = engine.get_execution_options()
    options = {name: value for name, value in given.items() if name not in STATEMENT_OPTIONS}
    own = Engine(
        engine.pool.recreate(),  # which has the listeners of the pool
        engine.dialect,
        engine.url,
        execution_options=options,
        hide_parameters=True,
    )
    result = AsyncEngine(own)
    if engine.dialect.name == "postgresql":  # on SQLite they take, or do not take, the write lock
        _copy_begin_listeners(engine.sync_engine, own)
    dialect_of(engine, tables, lease).install(result)
    return result


def _copy_begin_listeners(source: Engine, target: Engine) -> None:
    """Copy what sets a role or a search path for each transaction."""
    known = list(target.dispatch.begin)  # listeners to every engine
    for listener in source.dispatch.begin:
        if listener not in known:
            event.listen(target, "begin", listener)


def translated(engine: AsyncEngine, table: Table) -> Table:
    """Return a table with a name only, in the schema that the engine's options translate to."""
    schemas = engine.get_execution_options().get("schema_translate_map") or {}
    return Table(table.name, MetaData(), schema=schemas.get(table.schema, table.schema))


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
