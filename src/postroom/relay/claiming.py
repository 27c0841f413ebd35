"""Where to claim next, how many records, from which position on. Pure."""

import logging
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field

from postroom.record import Key
from postroom.relay.leases import HeldLeases
from postroom.relay.observer import Observers
from postroom.store.base import Claim, HeldRecord, Settlement
from postroom.store.key_order import KeyOrder
from postroom.store.store import Store

logger = logging.getLogger("postroom.relay")

LEAST_DEPTH = 8
"""How many records of a partition are held at least, before it counts as full."""
REREAD_SHARE = 0.1
"""The part of the time that claims may spend on reading again what they have read before."""
LONGEST_PAUSE = 1.0
"""Seconds after which everything is read again at the latest."""
FILLED_FOR = 1.0
"""Seconds for which a few keys may fill a partition before others are claimed past them."""
OF_A_KEY = 3
"""How many records are held per key, on average, if there are many."""
FEW_KEYS = 4
"""A few keys fill a partition when there are at least so many records to a key."""


@dataclass(kw_only=True)
class ClaimPlan:
    """Plans claims. `capacity`: how many records are held at most.

    Between full claims, a claim reads a partition from where the last one ended: what was
    delivered lately is slow to read past while an old snapshot is open. A full claim finds the
    record with a lower position that committed late.
    """

    order: KeyOrder
    leases: HeldLeases
    capacity: int
    batch_size: int
    observers: Observers = field(default_factory=Observers)
    empty_claims: int = 0
    """How many claims in a row have found that there is nothing to deliver."""
    _more: set[int] = field(default_factory=set)  # the partitions that may have more to claim
    _woken: set[int] = field(default_factory=set)  # by commits, and not fully claimed since
    _full_claim_at: float = 0.0
    _filled_since: dict[int, float] = field(default_factory=dict)  # by partition

    def look_into(self, partitions: Collection[int]) -> set[int]:
        """Claim from these partitions, and no other; return others in which there were commits."""
        self._more = set(partitions)
        others = self._woken - self._more
        self._woken &= self._more
        for partition in self.order.floors.keys() - self._more:
            del self.order.floors[partition]
        return others

    def wake(self, partitions: Set[int]) -> None:
        """Claim what was committed in these partitions: now, and when a full claim is possible."""
        self._more |= partitions
        self._woken |= partitions

    def full_claims_after(self, now: float) -> list[float]:
        """Return when to claim what was committed, if it has to wait for a full claim."""
        return [self._full_claim_at] if self._woken and self._full_claim_at > now else []

    def look_again(self, record: HeldRecord) -> None:
        """Claim from the start of a record's partition: records of its key may be released."""
        self._more.add(record.partition)
        self.order.floors.pop(record.partition, None)

    @property
    def no_room_for(self) -> Set[int]:
        """The partitions that cannot be claimed from, because too many records are held."""
        limit = self._limit
        batch = max(self.batch_size, limit // 4)
        busy = self.order.sendable or len(self.order.in_flight) >= self.batch_size
        enough = batch if busy else max(1, batch // 4)
        return self._more if limit - len(self.order.held) < enough else set()

    @property
    def _limit(self) -> int:
        """How many records to hold: more than a few of each key would only wait."""
        return min(self.capacity, max(8 * self.batch_size, OF_A_KEY * self.order.keys))

    def partitions(self, now: float) -> dict[int, int]:
        """Return the partitions to claim from, with the tokens of their leases."""
        if now >= self._full_claim_at:
            self._more |= self._woken
        if not self._more or self.no_room_for:
            return {}
        depth = max(LEAST_DEPTH, self._limit // max(1, len(self.leases.by_partition)))
        few = [each for each in self._more if self.order.load(each).held < depth]
        tokens = self.leases.claimable(now) if few else {}
        return {each: tokens[each] for each in self._furthest_behind(few) if each in tokens}

    def _furthest_behind(self, partitions: Collection[int]) -> list[int]:
        """Return the half of some partitions that has been claimed the least far.

        Otherwise those with many keys would be left over at the end of a backlog, and be slow. If
        nothing is held, there is no backlog.
        """
        floors = self.order.floors
        if not self.order.held or not partitions:
            return list(partitions)
        ordered = sorted(partitions, key=lambda each: floors.get(each, 0))
        middle = floors.get(ordered[len(ordered) // 2], 0)
        return [each for each in ordered if floors.get(each, 0) <= middle]

    def depth(self, partitions: Collection[int]) -> int:
        """Return how many records to claim of each partition, so that a claim has many keys."""
        return -(-(self._limit - len(self.order.held)) // len(partitions))

    def floors(self, now: float) -> Mapping[int, int]:
        """Return from which positions on to read; none for a full claim."""
        return {} if now >= self._full_claim_at else self.order.floors

    def begin(self, partitions: Collection[int], *, full: bool) -> None:
        """Note that a claim begins: it may not see what is committed from now on."""
        self._more -= set(partitions)
        if full:
            self._woken -= set(partitions)

    def claimed(self, claim: Claim, *, full: bool, began: float, ended: float) -> None:
        """Hold what a claim returned."""
        if full:
            self._full_claim_at = ended + min(LONGEST_PAUSE, (ended - began) / REREAD_SHARE)
        self.order.add(claim)
        self.observers.tell(lambda it: it.claimed(len(claim.records), ended - began))
        found = {each.partition for each in claim.records}
        if found:
            self.leases.served(began)
        self._more |= claim.more
        for partition in found:
            load = self.order.load(partition)
            if partition in claim.more and load.keys * FEW_KEYS <= load.held:
                self._filled_since.setdefault(partition, began)
            else:
                self._filled_since.pop(partition, None)
        if found or self.order.held or self._more:
            self.empty_claims = 0
        else:
            self.empty_claims += 1
            self._full_claim_at = 0.0  # nothing new is not yet nothing at all

    def hot_keys(self, now: float) -> dict[Key, HeldRecord]:
        """Return keys that have filled a partition for a second, with their first records.

        Each partition is looked at once a second.
        """
        if not self._filled_since:
            return {}
        filled = [p for p, since in self._filled_since.items() if now - since >= FILLED_FOR]
        self._filled_since.update(dict.fromkeys(filled, now))
        return self.order.firsts_with_followers(filled)


async def claim_past_hot_keys(plan: ClaimPlan, store: Store, now: float) -> None:
    """Block the keys that have filled a partition for a second, if others wait behind them.

    Their later records are parked, so that the next claim finds the others. If they leave no room
    to claim anything from other partitions, all of them are blocked.
    """
    firsts = plan.hot_keys(now)
    if not firsts:
        return
    partitions = {each.partition for each in firsts.values()}
    others_wait = await store.claims.waiting_behind(partitions, firsts.keys(), plan.order.held)
    if any(not plan.order.load(each).held for each in plan.no_room_for - partitions):
        others_wait = partitions
    in_the_way = [each for each in firsts.values() if each.partition in others_wait]
    blocking = [each for each in in_the_way if plan.leases.holds(each)]
    if blocking:
        logger.debug("postroom: claims past %d keys with many records", len(blocking))
        await store.settlements.settle(Settlement(slow=blocking))
    for each in blocking:
        each.blocks_key = True
        plan.order.drop_followers(each)
        plan.look_again(each)
