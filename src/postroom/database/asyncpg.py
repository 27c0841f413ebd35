"""Runs statements by asyncpg directly, which takes a tenth of the CPU."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import asyncpg
from sqlalchemy import TextClause
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from postroom.database.postgres import PostgresDialect
from postroom.database.transactions import Execute


class Row(asyncpg.Record):
    """A row whose columns are attributes."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class Checkout(NamedTuple):
    """A connection of SQLAlchemy's pool, and asyncpg's own, which it wraps."""

    pooled: AsyncConnection
    driver: Any
    has_settings: bool


class AsyncpgTransactions:
    """Runs statements on asyncpg's own connections, which SQLAlchemy opens and closes.

    With `keep`, a connection is kept for the next transaction. One on which anything went wrong is
    closed.
    """

    def __init__(self, engine: AsyncEngine, sql: PostgresDialect, *, keep: bool) -> None:
        self._engine = engine
        self._sql = sql
        self._keep = keep
        self._kept: list[Checkout] = []
        self._compiled: dict[TextClause, tuple[str, Sequence[str]]] = {}

    @asynccontextmanager
    async def begin(self, *, snapshot: bool) -> AsyncIterator[Execute]:
        """See Transactions."""
        isolation = "REPEATABLE READ, READ ONLY" if snapshot else "READ COMMITTED"
        async with self._checkout() as checkout:
            await checkout.driver.execute(f"BEGIN ISOLATION LEVEL {isolation}")
            if not checkout.has_settings:
                await checkout.driver.fetch(self._sql.set_config(local=True))
            yield partial(self._execute, checkout.driver)
            await checkout.driver.execute("COMMIT")

    async def fetch(
        self, statement: TextClause, values: Mapping[str, Any], *, snapshot: bool
    ) -> Sequence[Any]:
        """See Transactions. On a connection with our settings, that takes one round trip."""
        checkout = await self._open()
        if not checkout.has_settings:
            await self._put_back(checkout)
            async with self.begin(snapshot=snapshot) as execute:
                return await execute(statement, values)
        try:
            rows = await self._execute(checkout.driver, statement, values)
        except BaseException:
            await self._discard(checkout)
            raise
        await self._put_back(checkout)
        return rows

    async def close(self) -> None:
        """See Transactions."""
        while self._kept:
            await self._kept.pop().pooled.close()

    @asynccontextmanager
    async def _checkout(self) -> AsyncIterator[Checkout]:
        checkout = await self._open()
        try:
            yield checkout
        except BaseException:
            await self._discard(checkout)
            raise
        await self._put_back(checkout)

    async def _open(self) -> Checkout:
        while self._kept:
            kept = self._kept.pop()
            if not kept.driver.is_closed():
                return kept
            await self._discard(kept)
        await self._sql.prepare(self._engine)
        pooled = await self._engine.connect()
        raw = await pooled.get_raw_connection()
        return Checkout(pooled, raw.driver_connection, self._sql.has_settings(raw.info))

    async def _put_back(self, checkout: Checkout) -> None:
        if self._keep:
            self._kept.append(checkout)
        else:
            await checkout.pooled.close()

    async def _discard(self, checkout: Checkout) -> None:
        checkout.driver.terminate()  # at once: it may be in the middle of anything
        await checkout.pooled.invalidate()
        await checkout.pooled.close()

    async def _execute(
        self, driver: Any, statement: TextClause, values: Mapping[str, Any]
    ) -> Sequence[Any]:
        known = self._compiled.get(statement)
        if known is None:
            compiled = statement.compile(dialect=self._engine.dialect)
            known = self._compiled[statement] = str(compiled), compiled.positiontup or ()
        query, names = known
        rows: Sequence[Any] = await driver.fetch(
            query, *[values[name] for name in names], record_class=Row
        )
        return rows
