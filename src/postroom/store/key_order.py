"""Which record of each key may be sent next. Pure.

One record of a key is in flight at a time. The next one may be sent when that is delivered. After
a refusal, nothing of the key may be sent until the database says so: it parks the later records
and releases them in order (`blocked_keys` does what is said here).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping
from itertools import islice

from postroom.record import Key
from postroom.store.base import Claim, HeldRecord, Pauses

_Chooses = Callable[[HeldRecord], bool]


def divide(
    records: list[HeldRecord],
    was_due: Collection[int],
    blocked: Mapping[Key, int],
    pauses: Pauses,
) -> tuple[list[HeldRecord], list[HeldRecord], list[HeldRecord]]:
    """Divide records into those that may be sent, those that wait for another, and paused ones.

    A record may be sent up to the one that blocks its key. A delayed record whose time has come
    waits behind that one. Of a key, only the first paused record is among the paused ones.
    """
    if not blocked and not pauses:
        return records, [], []
    passing: list[HeldRecord] = []
    waiting: list[HeldRecord] = []
    paused: dict[Hashable, HeldRecord] = {}
    for each in records:
        blocker = blocked.get(each.key) if each.key is not None else None
        each.blocks_key = blocker == each.position
        behind = blocker is not None and (each.position > blocker or each.position in was_due)
        if (behind and not each.blocks_key) or each.queue in paused:
            waiting.append(each)
        elif pauses.hold(each):
            paused[each.queue] = each
        else:
            passing.append(each)
    return passing, waiting, list(paused.values())


class KeyOrder:
    """The records that a relay holds: which may be sent, which wait for another of their key.

    A record is held from its claim until it is settled, so that no second claim takes it. It is the
    first of its queue from the moment it is sendable until it is delivered or dropped.
    """

    def __init__(self) -> None:
        self.held: dict[HeldRecord, None] = {}
        """The records that a claim must not return again."""
        self.in_flight: dict[HeldRecord, None] = {}
        """The records that were sent and not answered."""
        self._queues: dict[Hashable, list[HeldRecord]] = {}  # by the `queue` of their records
        self._sendable: dict[Hashable, HeldRecord] = {}  # their firsts, the longest there first
        self.held_of: defaultdict[int, int] = defaultdict(int)
        """By partition: how many records are held."""
        self.keys_of: defaultdict[int, int] = defaultdict(int)
        """By partition: how many keys have records held; one without a key counts as one."""
        self.reached: dict[int, int] = {}
        """By partition: the position up to which everything that was committed is claimed."""

    @property
    def sendable(self) -> Collection[HeldRecord]:
        """The records that may be sent, the longest sendable first: one of each key."""
        return self._sendable.values()

    @property
    def keys(self) -> int:
        """How many keys have records held."""
        return len(self._queues)

    def partitions(self) -> set[int]:
        """Return the partitions that something is held of."""
        return {partition for partition, held in self.held_of.items() if held}

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
        return record in self.held and not again  # it may be claimed anew

    def add(self, claim: Claim) -> None:
        """Hold the records of a claim."""
        for each in claim.records:
            if each in self.held:
                continue
            self.held[each] = None
            self.held_of[each.partition] += 1
            name = each.queue
            queue = self._queues.get(name)
            if queue is None:
                self.keys_of[each.partition] += 1
                self._queues[name] = [each]
                self._sendable[name] = each
                continue
            # In order, also where a lower position comes late; what was sent stays first.
            index, fixed = len(queue), 0 if name in self._sendable else 1
            while index > fixed and queue[index - 1].position > each.position:
                index -= 1
            queue.insert(index, each)
            if index == 0:
                self._sendable[name] = each
        self.reached.update(claim.reached)

    def take(self, limit: int, allowed: _Chooses = lambda _: True) -> list[HeldRecord]:
        """Take records to send, the longest sendable first: one of each key."""
        taken = list(islice(filter(allowed, self._sendable.values()), limit))
        for each in taken:
            self.sent(each)
        return taken

    def sent(self, record: HeldRecord) -> None:
        """Note that a record is in flight."""
        self._sendable.pop(record.queue, None)
        self.in_flight[record] = None

    def answered(self, record: HeldRecord, *, delivered: bool) -> None:
        """Note an answer. After a delivery the next of the key may be sent; else it may not."""
        self.in_flight.pop(record, None)
        if not delivered:
            return
        queue = self._queues[record.queue]
        del queue[0]
        if queue:
            self._sendable[record.queue] = queue[0]
        else:
            self._close(record)

    def returned(self, record: HeldRecord) -> None:
        """Note that a record came back without an answer: it may be sent again."""
        self.in_flight.pop(record, None)
        self._sendable[record.queue] = record

    def settled(self, record: HeldRecord) -> None:
        """Release a record whose delivery is written."""
        if record in self.held:
            del self.held[record]
            self.held_of[record.partition] -= 1

    def drop_key(self, record: HeldRecord) -> None:
        """Drop a record that was not delivered, and what waits behind it."""
        self.drop_followers(record)
        self._sendable.pop(record.queue, None)
        self._close(record)
        self._drop(record)

    def drop_followers(self, record: HeldRecord) -> None:
        """Drop what waits behind a record, or behind the next of its key that is sent by now."""
        queue = self._queues.get(record.queue, [])
        while len(queue) > 1:
            self._drop(queue.pop())

    def drop_waiting(self, chosen: _Chooses = lambda _: True) -> None:
        """Drop the first chosen record of each key that is not in flight, and what is behind it."""
        for queue in list(self._queues.values()):
            first = 0 if queue[0].queue in self._sendable else 1
            start = next((n for n in range(first, len(queue)) if chosen(queue[n])), len(queue))
            while len(queue) > max(start, 1):
                self._drop(queue.pop())
            if start == 0:
                self.drop_key(queue[0])

    def _drop(self, record: HeldRecord) -> None:
        """Release a record that was not delivered: the next claim reads from it on."""
        self.settled(record)
        reached = self.reached.get(record.partition, 0)
        self.reached[record.partition] = min(reached, record.position - 1)

    def _close(self, record: HeldRecord) -> None:
        del self._queues[record.queue]
        self.keys_of[record.partition] -= 1
