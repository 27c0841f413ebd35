"""How many rows of a table PostgreSQL has read by sequential scans."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.support.waiting import eventually

OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND backend_type = 'client backend'
"""
SCANNED = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = :table"


async def rows_scanned(engine: AsyncEngine, table: str) -> int:
    """Give how many rows of a table sequential scans have read: all backends have ended."""
    await engine.dispose()
    await eventually(lambda: alone(engine), "all connections are closed")
    async with engine.connect() as connection:
        return int(await connection.scalar(text(SCANNED), {"table": table}) or 0)


async def alone(engine: AsyncEngine) -> bool:
    async with engine.connect() as connection:
        return not await connection.scalar(text(OTHERS))
