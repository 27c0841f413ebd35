"""The heartbeat: renews the leases, whatever the loop is waiting for, and notices outages."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from postroom.clock import Clock
from postroom.relay.breaker import Breaker
from postroom.relay.loop import Loop
from postroom.relay.settings import RelaySettings
from postroom.store.errors import database_outage, describe, is_conflict
from postroom.store.store import Store

logger = logging.getLogger("postroom.relay")


async def beat(
    loop: Loop, store: Store, settings: RelaySettings, clock: Clock, database: Breaker
) -> None:
    """Renew the leases of a loop four times per lease, until cancelled.

    `store` has a connection of its own, so that a heartbeat waits for nothing else.
    """
    never = asyncio.Event()
    while True:
        await clock.wait(never, settings.heartbeat)
        asked_at = clock.monotonic()
        try:
            async with asyncio.timeout(max(1.0, settings.heartbeat)), loop.leases.lock:
                tokens = await store.leases.renew(loop.worker, settings.lease)
        except Exception as error:
            if not database_outage(error):
                raise
            if not is_conflict(error):
                database.trip(describe(error))
        else:
            loop.leases.renewed(tokens, asked_at=asked_at)
            logger.debug("postroom: renewed %d leases", len(tokens))
            database.reset()


async def run_until_first_ends(
    main: Coroutine[Any, Any, None], *beside: Coroutine[Any, Any, None], stop: Callable[[], None]
) -> None:
    """Run everything together; when anything ends, stop the main part and wait for it."""
    tasks = [asyncio.create_task(each) for each in (main, *beside)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        stop()
        await asyncio.wait(tasks[:1])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()):
            raise error
