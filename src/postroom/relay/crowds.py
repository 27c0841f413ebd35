"""A hot key must not starve its partition: its later records are parked, others claimed past it."""

import logging
from collections.abc import Set

from postroom.relay.leases import HeldLeases
from postroom.store.base import HeldRecord, Settlement
from postroom.store.key_order import KeyOrder
from postroom.store.store import Store

logger = logging.getLogger("postroom.relay")


async def block_crowding_keys(
    store: Store, order: KeyOrder, leases: HeldLeases, now: float, no_room_for: Set[int]
) -> list[HeldRecord]:
    """Block the keys that have filled a partition for a second, if others wait behind them.

    If there is no room to claim from other partitions, all of them are blocked. Returns the
    records that later ones of their keys wait for.
    """
    partitions = order.crowded(now)
    firsts = [each for p in partitions for each in order.firsts_with_followers(p)]
    keys = [each.key for each in firsts if each.key is not None]
    if not keys:
        return []
    crowded = await store.claims.crowded(partitions, keys, order.held)
    in_the_way = (
        firsts
        if no_room_for - set(partitions)
        else [each for each in firsts if each.partition in crowded]
    )
    blocking = [each for each in in_the_way if each.key is not None and leases.holds(each)]
    if blocking:
        logger.debug("postroom: claims past %d keys with many records", len(blocking))
        await store.settlements.settle(Settlement(slow=blocking))
    for each in blocking:
        each.blocks_key = True
        order.drop_followers(each)
    return blocking
