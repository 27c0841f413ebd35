"""An outbox in a database of its own, whose tables autovacuum leaves alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import Outbox
from tests.support.postgres import temporary_database


@asynccontextmanager
async def never_vacuumed(outbox: Outbox) -> AsyncIterator[AsyncEngine]:
    """Create the tables of an outbox for as long as the block lasts."""
    with temporary_database("vacuum") as url:
        engine = create_async_engine(url.set(drivername="postgresql+asyncpg"))
        async with engine.begin() as connection:
            await connection.run_sync(outbox.create_tables)
            for table in outbox.tables:
                off = f"ALTER TABLE {table} SET (autovacuum_enabled = false)"
                await connection.execute(text(off))
        yield engine
        await engine.dispose()
