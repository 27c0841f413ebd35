"""Order per key, decided here and nowhere else. Pure: no I/O.

One record of a key is in flight at a time. The next one may be sent when that is delivered. After
a refusal, nothing of the key may be sent until the database says so: it parks the later records
and releases them in order (`blocked_keys` does what is said here).
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from postroom.record import Key
from postroom.store.base import Claim, HeldRecord

_Name = Key | int
"""Of a queue: the key of its records, or the position of a record that has no key."""
_Chooses = Callable[[HeldRecord], bool]
CROWDED_AFTER = 1.0
"""Seconds for which a few keys may fill a partition before others are claimed past them."""
FEW_KEYS = 4
"""A few keys fill a partition when there are at least so many records to a key."""


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


@dataclass(slots=True)
class PartitionLoad:
    """How many records and keys are held of a partition."""

    held: int = 0
    keys: int = 0
    sendable: int = 0
    """Keys whose first record may be sent."""


class KeyOrder:
    """The records that a relay holds: which may be sent, which wait for another of their key.

    A record is held from its claim until it is settled, so that no second claim takes it.
    """

    def __init__(self) -> None:
        self._held: dict[int, HeldRecord] = {}
        self._queues: dict[_Name, deque[HeldRecord]] = {}
        self._sendable: dict[_Name, HeldRecord] = {}  # firsts of queues, the longest there first
        self._in_flight: dict[int, HeldRecord] = {}
        self._loads: defaultdict[int, PartitionLoad] = defaultdict(PartitionLoad)
        self._crowded_since: dict[int, float] = {}
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
    def sendable(self) -> int:
        """How many records may be sent."""
        return len(self._sendable)

    def load(self, partition: int) -> PartitionLoad:
        """Return what is held of a partition."""
        return self._loads[partition]

    def partitions(self) -> set[int]:
        """Return the partitions that something is held of."""
        return {partition for partition, load in self._loads.items() if load.held}

    # -- in

    def add(self, claim: Claim, now: float = 0.0) -> None:
        """Hold the records of a claim."""
        for each in claim.records:
            if each.position in self._held:
                continue
            self._held[each.position] = each
            self._loads[each.partition].held += 1
            name = _name(each)
            queue = self._queues.get(name)
            if queue is None:
                self._queues[name] = deque([each])
                self._loads[each.partition].keys += 1
                self._set_sendable(name, each)
            else:
                self._insert(name, queue, each)
        self.floors.update(claim.reached)
        self._look_for_crowds(claim, now)

    def _insert(self, name: _Name, queue: deque[HeldRecord], record: HeldRecord) -> None:
        """Keep the order, also where a lower position comes late; what was sent stays first."""
        index, fixed = len(queue), 0 if name in self._sendable else 1
        while index > fixed and queue[index - 1].position > record.position:
            index -= 1
        queue.insert(index, record)
        if index == 0:
            self._set_sendable(name, record)

    def _look_for_crowds(self, claim: Claim, now: float) -> None:
        """Note the partitions that have more, and of which a few keys take all the room."""
        for partition in {each.partition for each in claim.records}:
            load = self._loads[partition]
            if partition in claim.more and load.keys * FEW_KEYS <= load.held:
                self._crowded_since.setdefault(partition, now)
            else:
                self._crowded_since.pop(partition, None)

    def crowded(self, now: float) -> list[int]:
        """Return the partitions that a few keys have filled for too long; each once a second."""
        found = [p for p, since in self._crowded_since.items() if now - since >= CROWDED_AFTER]
        self._crowded_since.update(dict.fromkeys(found, now))
        return [partition for partition in found if self._loads[partition].held]

    # -- out

    def take(self, limit: int, allowed: _Chooses = lambda _: True) -> list[HeldRecord]:
        """Take records to send, the longest sendable first: one of each key."""
        taken: list[HeldRecord] = []
        for each in self._sendable.values():
            if len(taken) >= limit:
                break
            if allowed(each):
                taken.append(each)
        for each in taken:
            self._clear_sendable(_name(each))
            self._in_flight[each.position] = each
        return taken

    def choices(self, allowed: _Chooses) -> Iterator[HeldRecord]:
        """Return the records that may be sent and are allowed, the longest sendable first."""
        return filter(allowed, self._sendable.values())

    def answered(self, record: HeldRecord, *, delivered: bool) -> None:
        """Note an answer. After a delivery the next of the key may be sent; else it may not."""
        self._in_flight.pop(record.position, None)
        name = _name(record)
        queue = self._queues.get(name)
        if not delivered or queue is None or queue[0] is not record:
            return
        queue.popleft()
        if queue:
            self._set_sendable(name, queue[0])
        else:
            self._close(name, record)

    def returned(self, record: HeldRecord) -> None:
        """Note that a record came back without an answer: it may be sent again."""
        self._in_flight.pop(record.position, None)
        queue = self._queues.get(_name(record))
        if queue and queue[0] is record:
            self._set_sendable(_name(record), record)

    def unsettled(self, record: HeldRecord) -> bool:
        """Return whether a record that was sent is neither settled nor to be sent again."""
        again = self._sendable.get(_name(record)) is record
        return self._held.get(record.position) is record and not again  # it may be claimed anew

    def settled(self, record: HeldRecord) -> None:
        """Release a record whose delivery is written."""
        if self._held.pop(record.position, None) is not None:
            self._loads[record.partition].held -= 1

    def drop_key(self, record: HeldRecord) -> None:
        """Drop a record that was not delivered, and what waits behind it."""
        name = _name(record)
        self._clear_sendable(name)
        for each in self._close(name, record):
            self._drop(each)
        self._drop(record)

    def drop_followers(self, record: HeldRecord) -> None:
        """Drop what waits behind a record."""
        queue = self._queues.get(_name(record))
        while queue is not None and len(queue) > 1:
            self._drop(queue.pop())

    def drop_waiting(self, chosen: _Chooses = lambda _: True) -> None:
        """Drop what is not in flight; of some records only, if they are chosen."""
        for name, queue in list(self._queues.items()):
            if not chosen(queue[0]):
                continue
            if name in self._sendable:
                self.drop_key(queue[0])
            else:
                self.drop_followers(queue[0])

    def keep_only(self, holds: _Chooses, partitions: Collection[int]) -> None:
        """Drop what waits without a lease, and forget what was read of other partitions."""
        self.drop_waiting(lambda each: not holds(each))
        self.floors = {p: floor for p, floor in self.floors.items() if p in partitions}

    def firsts_with_followers(self, partition: int) -> list[HeldRecord]:
        """Return the first record of each key of a partition that others wait behind."""
        queues = [queue for queue in self._queues.values() if len(queue) > 1]
        return [queue[0] for queue in queues if queue[0].partition == partition]

    def _drop(self, record: HeldRecord) -> None:
        self.settled(record)
        self.floors.pop(record.partition, None)  # it may have to be claimed again

    def _set_sendable(self, name: _Name, record: HeldRecord) -> None:
        if name not in self._sendable:
            self._loads[record.partition].sendable += 1
        self._sendable[name] = record

    def _clear_sendable(self, name: _Name) -> None:
        record = self._sendable.pop(name, None)
        if record is not None:
            self._loads[record.partition].sendable -= 1

    def _close(self, name: _Name, record: HeldRecord) -> deque[HeldRecord]:
        queue = self._queues.pop(name, None)
        if queue is None:
            return deque()
        self._loads[record.partition].keys -= 1
        return queue


def _name(record: HeldRecord) -> _Name:
    return record.position if record.key is None else record.key
