"""The heartbeat: renews the leases, whatever the loop is waiting for, and notices outages."""

import asyncio
import logging
from collections import deque
from math import inf

from postroom.database.errors import database_outage, describe, is_conflict
from postroom.relay.loop import Loop
from postroom.relay.report import REPORT_EVERY, report
from postroom.store.store import Store

logger = logging.getLogger("postroom.relay")

MINUTE = 60.0


async def beat(loop: Loop, store: Store) -> None:
    """Renew the leases of a loop four times per lease, and report, until cancelled.

    `store` has a connection of its own, so that a heartbeat waits for nothing else.
    """
    seconds, database = loop.settings.heartbeat, loop.database_breaker
    within, reported_at, reported_outage = max(1.0, seconds), -inf, False
    now, done = loop.clock.monotonic(), loop.tally.delivered
    delivered = deque([(now, done)])  # at the heartbeats of the last minute
    while True:
        await loop.clock.wait(asyncio.Event(), seconds)
        asked_at = loop.clock.monotonic()
        try:
            async with asyncio.timeout(within), loop.leases.lock:
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
            delivered.append((asked_at, loop.tally.delivered))
            if delivered[1][0] <= asked_at - MINUTE:
                delivered.popleft()
            outage = loop.publisher_breaker.outage is not None
            if tokens or outage != reported_outage or asked_at - reported_at >= REPORT_EVERY:
                await report(loop, store, delivered[-1][1] - delivered[0][1], within)
                reported_at, reported_outage = asked_at, outage
