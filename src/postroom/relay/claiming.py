"""Where to claim next, how many records, from which position on. Pure."""

import logging
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field

from postroom.record import Key
from postroom.relay.leases import HeldLeases
from postroom.store.base import Claim, HeldRecord, Settlement
from postroom.store.claims import PREPARED
from postroom.store.key_order import KeyOrder
from postroom.store.store import Store

logger = logging.getLogger("postroom.relay")

LEAST_DEPTH = 8
"""How many records of a partition are held at least, before it counts as full."""
REREAD_SHARE = 0.1
"""The part of the time that claims may spend on reading again what they have read before."""
LONGEST_PAUSE = 2.0
"""Seconds after which everything is read again at the latest."""
ASK_EVERY = 0.3
"""Seconds between two questions for the transactions that write: each delays the loop."""
FILLED_FOR = 1.0
"""Seconds for which a few keys may fill a partition before others are claimed past them."""
OF_A_KEY = 3
"""How many records are held per key, on average, if there are many."""
FEW_KEYS = 4
"""A few keys fill a partition when there are at least so many records to a key."""


@dataclass(kw_only=True)
class ClaimPlan:
    """Plans claims. `capacity`: how many records are held at most.

    What was delivered lately is slow to read past while an old snapshot is open. So most claims
    read a partition from a floor on: a position that no transaction can still commit below. After
    a full claim, each other partition is read from its start once, too: that finds what became
    ready again below the floor, such as what an operator releases.
    """

    order: KeyOrder
    leases: HeldLeases
    capacity: int
    batch_size: int
    empty_claims: int = 0
    """How many claims in a row have found that there is nothing to deliver."""
    _more: set[int] = field(default_factory=set)  # the partitions that may have more to claim
    _full_claim_at: float = 0.0
    _unread: set[int] = field(default_factory=set)  # to be read from the start, once
    _rereading: float = 0.0  # the seconds that this has taken so far
    _floors: dict[int, int] = field(default_factory=dict)
    _next_floors: dict[int, int] = field(default_factory=dict)  # after one more claim
    _writers_asked_at: float = -ASK_EVERY
    _has_found: bool = False  # since then
    _writers: frozenset[str] = frozenset({PREPARED})  # who may still commit below these:
    _reached: dict[int, int] = field(default_factory=dict)
    _filled_since: dict[int, float] = field(default_factory=dict)  # by partition

    def look_into(self, partitions: Collection[int], anew: Set[int] = frozenset()) -> set[int]:
        """Claim from these partitions, and no other; return others that may have more.

        From those `anew` that others have held meanwhile: they may have released records.
        """
        others = self._more.difference(partitions)
        self._more = set(partitions)
        self._unread &= self._more  # the poll has looked into the others
        for partition in self.order.reached.keys() - (self._more - anew):
            reached = self.order.reached.pop(partition)
            self._floors[partition] = min(reached, self._floors.get(partition, 0))
        return others

    def wake(self, partitions: Set[int]) -> None:
        """Claim what was committed in these partitions."""
        self._more |= partitions

    def look_again(self, record: HeldRecord) -> None:
        """Claim from the start: records of a key may be released, also such as are replayed."""
        self._more.add(record.partition)
        self.order.reached[record.partition] = 0

    def asks_for_writers(self, now: float) -> bool:
        """Return whether it is time to ask which transactions write: at once for first floors."""
        pause = ASK_EVERY if self._floors else 0.0
        return self._has_found and now - self._writers_asked_at >= pause

    def note_writers(self, writers: frozenset[str], now: float) -> None:
        """Raise the floors to what was reached when all of these transactions had not begun.

        A record with a lower position may be committed late, by one that ran when a claim passed
        it. When those that ran then have ended, one more claim finds whatever they committed.
        """
        self._has_found, self._writers_asked_at = False, now
        if self._writers.isdisjoint(writers):
            self._next_floors = self._reached
            self._writers, self._reached = writers | {PREPARED}, dict(self.order.reached)

    def forget(self) -> None:
        """Claim everything again: the database is another one."""
        self.order.drop_waiting()
        for known in (self.order.reached, self._floors, self._next_floors, self._reached):
            known.clear()

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
        if not self._more or self.no_room_for:
            return {}
        depth = max(LEAST_DEPTH, self._limit // max(1, len(self.leases.tokens)))
        few = [each for each in self._more if self.order.held_of[each] < depth]
        tokens = self.leases.claimable(now) if few else {}
        return {each: tokens[each] for each in self._furthest_behind(few) if each in tokens}

    def _furthest_behind(self, partitions: Collection[int]) -> Collection[int]:
        """Return the half of some partitions that has been claimed the least far.

        Otherwise those with many keys would be left over at the end of a backlog, and be slow. If
        nothing is held, there is no backlog.
        """
        if not self.order.held or not partitions:
            return partitions
        reached = {each: self.order.reached.get(each, 0) for each in partitions}
        middle = sorted(reached.values())[len(reached) // 2]
        return [each for each in partitions if reached[each] <= middle]

    def depth(self, partitions: Collection[int]) -> int:
        """Return how many records to claim of each partition, so that a claim has many keys."""
        return -(-(self._limit - len(self.order.held)) // len(partitions))

    def floors(self, now: float, *, of_all: bool = False) -> Mapping[int, int]:
        """Return from which positions on to read; none for a full claim.

        `of_all`: also of partitions that others may serve by now. Enough to see whether a partition
        has work, but to claim from it begins at its start: they may have made records ready.
        """
        if now >= self._full_claim_at:
            return {}
        reached = self.order.reached
        known = self._floors.items()
        floors = {each: min(floor, reached.get(each, floor)) for each, floor in known}
        known_to_claims = floors.keys() if of_all else reached.keys() & floors.keys()
        return {p: floors[p] for p in known_to_claims - self._unread if floors[p] > 0}

    def begin(self, partitions: Collection[int]) -> None:
        """Note that a claim begins: it may not see what is committed from now on."""
        self._more.difference_update(partitions)

    def claimed(
        self, claim: Claim, partitions: Collection[int], *, full: bool, began: float, ended: float
    ) -> None:
        """Hold what a claim of some partitions returned."""
        for partition in self._next_floors.keys() & partitions:
            self._floors[partition] = self._next_floors.pop(partition)
        if full:
            self._unread, self._rereading = set(self._floors), 0.0
        if full or not self._unread.isdisjoint(partitions):
            self._rereading += ended - began
            self._full_claim_at = ended + min(LONGEST_PAUSE, self._rereading / REREAD_SHARE)
        self._unread.difference_update(partitions)
        self.order.add(claim)
        found = {each.partition for each in claim.records}
        if found:
            self._has_found = True
            self.leases.served(began)
        self._more |= claim.more
        for partition in found:
            few = self.order.keys_of[partition] * FEW_KEYS <= self.order.held_of[partition]
            if few and partition in claim.more:
                self._filled_since.setdefault(partition, began)
            else:
                self._filled_since.pop(partition, None)
        if self.order.held or self._more:
            self.empty_claims = 0
        else:
            self.empty_claims += 1
            self._full_claim_at = 0.0  # nothing new is not yet nothing at all

    def hot_keys(self, now: float) -> dict[Key, HeldRecord]:
        """Return keys that have filled a partition for a second, with their first records.

        Each partition is looked at once a second.
        """
        filled = [p for p, since in self._filled_since.items() if now - since >= FILLED_FOR]
        self._filled_since.update(dict.fromkeys(filled, now))
        return self.order.firsts_with_followers(filled) if filled else {}


async def claim_past_hot_keys(plan: ClaimPlan, store: Store, now: float) -> None:
    """Block the keys that have filled a partition for a second, if others wait behind them.

    Their later records are parked, so that the next claim finds the others. If they leave no room
    to claim anything from other partitions, all of them are blocked.
    """
    if not (firsts := plan.hot_keys(now)):
        return
    partitions = {each.partition for each in firsts.values()}
    others_wait = await store.claims.waiting_behind(partitions, firsts.keys(), plan.order.held)
    if any(not plan.order.held_of[each] for each in plan.no_room_for - partitions):
        others_wait = partitions
    leased = filter(plan.leases.holds, firsts.values())
    blocking = [each for each in leased if each.partition in others_wait]
    if blocking:
        logger.debug("postroom: claims past %d keys with many records", len(blocking))
        await store.settlements.settle(Settlement(slow=blocking))
    for each in blocking:
        each.blocks_key = True
        plan.order.drop_followers(each)
        plan.look_again(each)
