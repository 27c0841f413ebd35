"""The cleaner: deletes what was delivered long ago, and puts right what nobody would claim."""

import asyncio
import logging
from datetime import timedelta

from postroom.errors import error_text
from postroom.relay.clock import Clock
from postroom.relay.trouble import database_outage
from postroom.store.base import Store

logger = logging.getLogger("postroom.relay")

INTERVAL = timedelta(minutes=10)
BATCH = 1000


class Cleaner:
    """Works between the relay's deliveries, in small batches."""

    def __init__(self, store: Store, clock: Clock, retention: timedelta | None) -> None:
        self._store = store
        self._clock = clock
        self._retention = retention
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Have it end."""
        self._stopped.set()

    async def run(self) -> None:
        """Clean up now and then."""
        while not self._stopped.is_set():
            try:
                await self.clean()
            except Exception as error:  # deliveries do not depend on it
                level = logging.WARNING if database_outage(error) else logging.ERROR
                logger.log(level, "postroom: the clean-up has to wait: %s", error_text(error))
            await self._clock.wait(self._stopped, INTERVAL.total_seconds())

    async def clean(self) -> int:
        """Clean up once, all that there is; gives how many rows are gone."""
        if mended := await self._store.mend():
            logger.warning("postroom: put %d records right that nobody would have claimed", mended)
        if self._retention is None:
            return 0
        deleted, after = 0, 0
        while not self._stopped.is_set():
            cleaned = await self._store.clean(older_than=self._retention, after=after, limit=BATCH)
            deleted += cleaned.deleted
            if cleaned.last is None:
                break
            after = cleaned.last
        return deleted
