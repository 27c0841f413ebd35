"""Begins, ends and rolls back transactions, for any driver."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from sqlalchemy import TextClause
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.database.postgres import PostgresDialect
from postroom.database.sqlite import SQLiteDialect

Dialect = PostgresDialect | SQLiteDialect
Execute = Callable[[TextClause, Mapping[str, Any]], Awaitable[Sequence[Any]]]
"""Runs a statement, and returns its rows, whose columns are attributes."""


class Transactions(Protocol):
    """Runs statements in transactions."""

    def begin(self, *, snapshot: bool) -> AbstractAsyncContextManager[Execute]:
        """Begin a transaction that reads one moment, or whose statements each see the latest."""

    async def fetch(
        self, statement: TextClause, values: Mapping[str, Any], *, snapshot: bool
    ) -> Sequence[Any]:
        """Run one statement, which is a transaction by itself; a snapshot if it only reads."""

    async def close(self) -> None:
        """Close the connections that were kept."""


class EngineTransactions:
    """Runs statements by SQLAlchemy, on a connection of the engine's pool."""

    def __init__(self, engine: AsyncEngine, sql: Dialect) -> None:
        self._engine = engine
        self._sql = sql

    @asynccontextmanager
    async def begin(self, *, snapshot: bool) -> AsyncIterator[Execute]:
        """See Transactions."""
        async with self._sql.begin(self._engine, snapshot=snapshot) as connection:

            async def execute(statement: TextClause, values: Mapping[str, Any]) -> Sequence[Any]:
                result = await connection.execute(statement, values)
                return result.all() if result.returns_rows else ()

            yield execute

    async def fetch(
        self, statement: TextClause, values: Mapping[str, Any], *, snapshot: bool
    ) -> Sequence[Any]:
        """See Transactions."""
        async with self.begin(snapshot=snapshot) as execute:
            return await execute(statement, values)

    async def close(self) -> None:
        """Do nothing: the pool keeps the connections."""
