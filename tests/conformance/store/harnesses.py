"""The stores that there are, each on an engine that is quick rather than durable."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom.store.store import Store
from tests.conformance.store.rig import StoreHarness, outbox

CARELESS: dict[str, dict[str, Any]] = {
    "asyncpg": {"server_settings": {"synchronous_commit": "off"}},
    "psycopg": {"options": "-csynchronous_commit=off"},
}


class PostgresHarness(StoreHarness):
    """PostgreSQL, by either driver."""

    shares_work = True

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine)
        self.store().database.sql.install(engine)  # as a relay does with its own

    def store(self, **options: Any) -> Store:
        return Store(self.engine, outbox.tables, **options)


class SQLiteHarness(StoreHarness):
    """A file."""

    shares_work = False

    def store(self, **options: Any) -> Store:
        return Store(self.engine, outbox.tables, **options)


@asynccontextmanager
async def postgres(url: str) -> AsyncIterator[StoreHarness]:
    """Give PostgreSQL, with the tables."""
    engine = create_async_engine(
        url, connect_args=CARELESS[url.partition("+")[2].partition(":")[0]]
    )
    async with _opened(PostgresHarness(engine)) as harness:
        yield harness


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[StoreHarness]:
    """Give a file, with the tables."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{folder / 'suite.db'}")
    event.listen(
        engine.sync_engine, "connect", lambda one, _: one.execute("PRAGMA synchronous = OFF")
    )
    async with _opened(SQLiteHarness(engine)) as harness:
        yield harness


@asynccontextmanager
async def _opened(harness: StoreHarness) -> AsyncIterator[StoreHarness]:
    await _create_tables(harness.engine)
    await harness.store().open()
    yield harness
    await harness.engine.dispose()


async def _create_tables(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
