"""A record that another transaction has locked is settled later. The others do not wait for it."""

import logging

from postroom.relay.delivery import Delivery
from postroom.store.base import Settlement
from postroom.store.errors import describe
from postroom.store.store import Store

logger = logging.getLogger("postroom.relay")

PAUSE = 0.5
"""Seconds between two looks at the locks."""


async def put_locked_aside(
    error: Exception, settlement: Settlement, store: Store, delivery: Delivery, now: float
) -> None:
    """Note which records of a settlement are locked, after it has waited for them in vain."""
    records = [*settlement.delivered, *(each.record for each in settlement.attempts)]
    positions = {each.position for each in records}
    delivery.locked |= await store.settlements.locked(positions)
    delivery.settle_at = now + PAUSE
    logger.warning(
        "postroom: %d of %d settlements have to wait: %s",
        len(delivery.locked) or len(positions),
        len(positions),
        describe(error),
    )


async def look_at_locks(store: Store, delivery: Delivery, now: float) -> None:
    """Settle records again that are not locked any more."""
    if delivery.locked and now >= delivery.settle_at:
        delivery.locked = await store.settlements.locked(delivery.locked)
        delivery.settle_at = now + PAUSE
