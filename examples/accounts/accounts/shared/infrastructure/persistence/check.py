"""The check of the tables at start-up."""

import logging

from dishka import AsyncContainer
from postroom import Outbox, database_outage
from sqlalchemy.ext.asyncio import AsyncEngine

log = logging.getLogger(__name__)


async def check_tables(container: AsyncContainer) -> None:
    """Raise SchemaError unless the migrations have been run.

    If the database is unavailable, the application starts all the same: it answers 503, and the
    relay waits.
    """
    engine, outbox = await container.get(AsyncEngine), await container.get(Outbox)
    try:
        async with engine.connect() as connection:
            await connection.run_sync(outbox.check)
    except Exception as error:
        if not database_outage(error):
            raise
        cause = getattr(error, "orig", error)
        log.warning("the database is unavailable; its tables are not checked: %r", cause)
