"""The heartbeat: renews the leases, whatever the loop is waiting for, and notices outages."""

import asyncio
import logging

from postroom.database.errors import database_outage, describe, is_conflict
from postroom.relay.loop import Loop
from postroom.store.store import Store

logger = logging.getLogger("postroom.relay")


async def beat(loop: Loop, store: Store) -> None:
    """Renew the leases of a loop four times per lease, until cancelled.

    `store` has a connection of its own, so that a heartbeat waits for nothing else.
    """
    seconds, database = loop.settings.heartbeat, loop.database_breaker
    while True:
        await loop.clock.wait(asyncio.Event(), seconds)
        asked_at = loop.clock.monotonic()
        try:
            async with asyncio.timeout(max(1.0, seconds)), loop.leases.lock:
                tokens = await store.leases.renew(loop.worker, loop.settings.lease)
        except Exception as error:
            if not database_outage(error):
                raise
            if not is_conflict(error):
                database.trip(describe(error))
        else:
            loop.leases.renewed(tokens, asked_at=asked_at)
            logger.debug("postroom: renewed %d leases", len(tokens))
            database.reset()
