"""Which record of each key may be sent next. Pure.

One record of a key is in flight at a time. The next one may be sent when that is delivered. After
a refusal, nothing of the key may be sent until the database says so: it parks the later records
and releases them in order (`blocked_keys` does what is said here).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from postroom.record import Key
from postroom.store.base import Claim, HeldRecord, Pauses

_Name = Key | int
"""Of a queue: the key of its records, or the position of a record that has no key."""
_Chooses = Callable[[HeldRecord], bool]


def divide(
    records: Iterable[HeldRecord], was_due: Collection[int], blocked: Mapping[Key, int]
) -> tuple[list[HeldRecord], list[HeldRecord]]:
    """Divide records into those that may be sent and those that have to wait for another.

    A record may be sent up to the one that blocks its key. A delayed record whose time has come
    waits behind that one.
    """
    passing: list[HeldRecord] = []
    waiting: list[HeldRecord] = []
    for each in records:
        blocker = blocked.get(each.key) if each.key is not None else None
        each.blocks_key = blocker == each.position
        before = blocker is not None and each.position < blocker and each.position not in was_due
        free = blocker is None or each.blocks_key or before
        (passing if free else waiting).append(each)
    return passing, waiting


def divide_paused(
    records: Iterable[HeldRecord], pauses: Pauses
) -> tuple[list[HeldRecord], list[HeldRecord], list[HeldRecord]]:
    """Divide records into those that may be sent, those that are paused, and later ones of a key.

    Of a key, only the first paused record is among the paused ones.
    """
    passing: list[HeldRecord] = []
    paused: list[HeldRecord] = []
    behind: list[HeldRecord] = []
    keys: set[Key] = set()
    for each in records:
        if each.key in keys:
            behind.append(each)
        elif pauses.hold(each):
            paused.append(each)
            keys |= {each.key} if each.key is not None else set()
        else:
            passing.append(each)
    return passing, paused, behind


@dataclass(slots=True)
class PartitionLoad:
    """How many records and keys are held of a partition."""

    held: int = 0
    keys: int = 0


class KeyOrder:
    """The records that a relay holds: which may be sent, which wait for another of their key.

    A record is held from its claim until it is settled, so that no second claim takes it. It is the
    first of its queue from the moment it is sendable until it is delivered or dropped.
    """

    def __init__(self) -> None:
        self._held: dict[int, HeldRecord] = {}
        self._queues: dict[_Name, list[HeldRecord]] = {}
        self._sendable: dict[_Name, HeldRecord] = {}  # firsts of queues, the longest there first
        self._in_flight: dict[int, HeldRecord] = {}
        self._loads: defaultdict[int, PartitionLoad] = defaultdict(PartitionLoad)
        self.floors: dict[int, int] = {}
        """By partition: the position up to which everything has been claimed."""

    @property
    def held(self) -> Collection[int]:
        """The positions that a claim must not return again."""
        return self._held.keys()

    @property
    def in_flight(self) -> Collection[int]:
        """The positions of the records that were sent and not answered."""
        return self._in_flight.keys()

    @property
    def sendable(self) -> Collection[HeldRecord]:
        """The records that may be sent, the longest sendable first: one of each key."""
        return self._sendable.values()

    @property
    def keys(self) -> int:
        """How many keys have records held; one without a key counts as one."""
        return len(self._queues)

    def load(self, partition: int) -> PartitionLoad:
        """Return how much is held of a partition."""
        return self._loads[partition]

    def partitions(self) -> set[int]:
        """Return the partitions that something is held of."""
        return {partition for partition, load in self._loads.items() if load.held}

    def firsts_with_followers(self, partitions: Collection[int]) -> dict[Key, HeldRecord]:
        """Return the first record of each key of some partitions that others wait behind."""
        return {
            name: queue[0]
            for name, queue in self._queues.items()
            if isinstance(name, Key) and len(queue) > 1 and queue[0].partition in partitions
        }

    def unsettled(self, record: HeldRecord) -> bool:
        """Return whether a record that was sent is neither settled nor to be sent again."""
        again = self._sendable.get(record.queue) is record
        return self._held.get(record.position) is record and not again  # it may be claimed anew

    def add(self, claim: Claim) -> None:
        """Hold the records of a claim."""
        for each in claim.records:
            if each.position in self._held:
                continue
            self._held[each.position] = each
            load = self._loads[each.partition]
            load.held += 1
            name = each.queue
            queue = self._queues.get(name)
            if queue is None:
                load.keys += 1
                self._queues[name] = [each]
                self._sendable[name] = each
            else:
                self._insert(name, queue, each)
        self.floors.update(claim.reached)

    def _insert(self, name: _Name, queue: list[HeldRecord], record: HeldRecord) -> None:
        """Keep the order, also where a lower position comes late; what was sent stays first."""
        index, fixed = len(queue), 0 if name in self._sendable else 1
        while index > fixed and queue[index - 1].position > record.position:
            index -= 1
        queue.insert(index, record)
        if index == 0:
            self._sendable[name] = record

    def take(self, limit: int, allowed: _Chooses = lambda _: True) -> list[HeldRecord]:
        """Take records to send, the longest sendable first: one of each key."""
        taken = list(islice(filter(allowed, self._sendable.values()), limit))
        for each in taken:
            self.sent(each)
        return taken

    def sent(self, record: HeldRecord) -> None:
        """Note that a record is in flight."""
        self._sendable.pop(record.queue, None)
        self._in_flight[record.position] = record

    def answered(self, record: HeldRecord, *, delivered: bool) -> None:
        """Note an answer. After a delivery the next of the key may be sent; else it may not."""
        self._in_flight.pop(record.position, None)
        if not delivered:
            return
        name = record.queue
        queue = self._queues[name]
        del queue[0]
        if queue:
            self._sendable[name] = queue[0]
        else:
            self._close(name, record)

    def returned(self, record: HeldRecord) -> None:
        """Note that a record came back without an answer: it may be sent again."""
        self._in_flight.pop(record.position, None)
        self._sendable[record.queue] = record

    def settled(self, record: HeldRecord) -> None:
        """Release a record whose delivery is written."""
        if self._held.pop(record.position, None) is not None:
            self._loads[record.partition].held -= 1

    def drop_key(self, record: HeldRecord) -> None:
        """Drop a record that was not delivered, and what waits behind it."""
        self.drop_followers(record)
        name = record.queue
        self._sendable.pop(name, None)
        self._close(name, record)
        self._drop(record)

    def drop_followers(self, record: HeldRecord) -> None:
        """Drop what waits behind a record, or behind the next of its key that is sent by now."""
        queue = self._queues.get(record.queue, [])
        while len(queue) > 1:
            self._drop(queue.pop())

    def drop_waiting(self, chosen: _Chooses = lambda _: True) -> None:
        """Drop what is not in flight; of some records only, if they are chosen."""
        for first in [queue[0] for queue in self._queues.values() if chosen(queue[0])]:
            if first.queue in self._sendable:
                self.drop_key(first)
            else:
                self.drop_followers(first)

    def drop_from(self, chosen: _Chooses) -> None:
        """Drop the first chosen record of each key that is not in flight, and what is behind it."""
        for queue in list(self._queues.values()):
            first = 0 if queue[0].queue in self._sendable else 1
            start = next((n for n in range(first, len(queue)) if chosen(queue[n])), len(queue))
            for each in reversed(queue[max(start, 1) :]):
                self._drop(each)
            del queue[max(start, 1) :]
            if start == 0:
                self.drop_key(queue[0])

    def _drop(self, record: HeldRecord) -> None:
        self.settled(record)
        self.floors.pop(record.partition, None)  # it may have to be claimed again

    def _close(self, name: _Name, record: HeldRecord) -> None:
        del self._queues[name]
        self._loads[record.partition].keys -= 1
