"""The end of a loop: settle, cancel what is in flight, release the leases."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from postroom.relay.delivery import Delivery
from postroom.store.errors import describe

logger = logging.getLogger("postroom.relay")

LEAVE_WITHIN = 5.0
"""Seconds for each step that needs the database."""
Step = Callable[[], Awaitable[None]]


async def leave(delivery: Delivery, settle: Step, release: Step) -> None:
    """End deliveries. What was in flight stays undelivered, and others may take it at once."""
    delivery.closed = True
    await _try(settle)
    await delivery.cancel()
    await _try(settle)
    await _try(release)


async def _try(step: Step) -> None:
    try:
        async with asyncio.timeout(LEAVE_WITHIN):
            await step()
    except Exception as error:
        logger.warning("postroom: leases are left to run out: %s", describe(error))
