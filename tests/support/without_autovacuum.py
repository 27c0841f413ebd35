"""An outbox whose tables autovacuum leaves alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import URL, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import Outbox
from tests.support.postgres import temporary_database


@asynccontextmanager
async def database_without_autovacuum(outbox: Outbox) -> AsyncIterator[AsyncEngine]:
    """Create the tables of an outbox in a database of their own."""
    with temporary_database("vacuum") as url:
        async with tables_without_autovacuum(outbox, url) as engine:
            yield engine


@asynccontextmanager
async def tables_without_autovacuum(outbox: Outbox, url: URL) -> AsyncIterator[AsyncEngine]:
    """Create the tables of an outbox, and drop them at the end."""
    engine = create_async_engine(url.set(drivername="postgresql+asyncpg"))
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
        for table in outbox.tables:
            await connection.execute(text(f"ALTER TABLE {table} SET (autovacuum_enabled = false)"))
    yield engine
    async with engine.begin() as connection:
        await connection.run_sync(outbox.metadata.drop_all)
    await engine.dispose()
