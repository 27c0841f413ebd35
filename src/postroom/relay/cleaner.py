"""Every ten minutes, deletes old records and repairs rows that nobody would claim."""

import asyncio
import logging
from datetime import timedelta

from postroom.clock import Clock
from postroom.database.errors import database_outage, describe
from postroom.store.store import Store

logger = logging.getLogger("postroom.relay")

BATCH = 1000


async def clean_regularly(store: Store, clock: Clock, retention: timedelta | None) -> None:
    """Clean up now and every ten minutes, until cancelled."""
    while True:
        try:
            await clean(store, retention)
        except Exception as error:  # deliveries do not depend on it
            level = logging.WARNING if database_outage(error) else logging.ERROR
            logger.log(level, "postroom: the clean-up has to wait: %s", describe(error))
        await clock.wait(asyncio.Event(), 10 * 60)


async def clean(store: Store, retention: timedelta | None) -> int:
    """Clean up everything there is; return how many records were deleted."""
    if repaired := await store.cleaning.repair():
        logger.warning("postroom: repaired %d records that nobody would have claimed", repaired)
    if retention is None:
        return 0
    deleted, after = 0, 0
    while True:
        cleaned = await store.cleaning.clean(older_than=retention, after=after, limit=BATCH)
        deleted += cleaned.deleted
        if cleaned.last is None:
            return deleted
        after = cleaned.last
