"""Positions that are given out again, as after a failover that lost commits, or a restore."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

RESTART = {
    "postgresql": "ALTER TABLE outbox ALTER COLUMN position RESTART WITH {first}",
    "sqlite": "INSERT OR REPLACE INTO sqlite_sequence (rowid, name, seq) VALUES"
    " ((SELECT rowid FROM sqlite_sequence WHERE name = 'outbox'), 'outbox', {first} - 1)",
}
TABLES = "outbox", "outbox_blocked_keys", "outbox_attempts"


async def go_on_from(engine: AsyncEngine, first: int) -> None:
    """Have the next record of the shop's outbox get this position."""
    async with engine.begin() as connection:
        await connection.execute(text(RESTART[engine.dialect.name].format(first=first)))


async def lose_everything(engine: AsyncEngine, first: int) -> None:
    """Lose what the shop's outbox holds; give out its positions again."""
    async with engine.begin() as connection:
        for table in TABLES:
            await connection.execute(text(f"DELETE FROM {table}"))
        await connection.execute(text(RESTART[engine.dialect.name].format(first=first)))
