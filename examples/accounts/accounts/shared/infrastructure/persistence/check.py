"""The check of the tables at start-up."""

import logging

from dishka import AsyncContainer
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import Outbox, database_outage

log = logging.getLogger(__name__)


async def check_tables(container: AsyncContainer) -> None:
    """Raise SchemaError unless the migrations have been run.

    A database that is away is no reason not to start: requests are answered with 503, and the
    relay waits for it.
    """
    engine, outbox = await container.get(AsyncEngine), await container.get(Outbox)
    try:
        async with engine.connect() as connection:
            await connection.run_sync(outbox.check)
    except Exception as error:
        if not database_outage(error):
            raise
        cause = getattr(error, "orig", error)
        log.warning("the database is away, its tables are not checked: %r", cause)
