"""Drops the tables of an outbox whose relay has just stopped."""

from sqlalchemy import MetaData
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.support.waiting import eventually


async def drop_tables(engine: AsyncEngine, metadata: MetaData) -> None:
    """Drop tables, again if the server still runs a query that was cancelled: it notices late."""

    async def are_dropped() -> bool:
        try:
            async with engine.begin() as connection:
                await connection.run_sync(metadata.drop_all)
        except DBAPIError as error:
            if "deadlock detected" not in str(error):
                raise
            return False
        return True

    await eventually(are_dropped, "the tables are dropped")
