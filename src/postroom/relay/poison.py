"""Poison: records that break connections, and records that kill processes. Pure: no I/O.

A record that breaks the connection for all looks like an outage. One that is in flight when the
connection breaks is sent again as before; after two breaks, alone; if it then breaks the connection
twice more, it is refused. A break counts only if others were answered since the last one.

A record that kills the process takes its lease with it. When two holders of a partition have died
in a row, the records that may have been in flight are sent one at a time per partition, each
written down before it is sent. A record whose delivery did not end is then sent alone in the
process. After `max_crashes` deliveries that did not end, it fails.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator

from postroom.relay.leases import HeldLeases
from postroom.store.base import HeldRecord
from postroom.store.key_order import KeyOrder

logger = logging.getLogger("postroom.relay")

ALONE_AFTER = 2
REFUSED_AFTER = 2 * ALONE_AFTER
REMEMBERED = 10_000
CAUTIOUS_AFTER = 2
"""From so many crashes in a row on, records are sent one at a time per partition."""
ALONE_SECONDS = 5.0
"""How long other records wait for one that goes alone, or it for them: deliveries may take long."""
LEAST_COVERED = 8
"""How many records of a partition are sent so at least."""


class Poison:
    """Says which records have to be sent alone, and which are to be refused.

    `capacity`: how many records a process holds at most.
    """

    def __init__(self, capacity: int, max_crashes: int) -> None:
        self._capacity = capacity
        self._max_crashes = max_crashes
        # position: breaks in all, breaks that count, answers at the last one
        self._breaks: dict[int, tuple[int, int, int]] = {}
        self._answers = 0
        self._left: dict[int, int] = {}  # partition: records still to be sent one at a time
        self._suspects: dict[int, HeldRecord] = {}  # partition: the record in flight
        self._alone: HeldRecord | None = None  # in flight, and nothing else
        self._alone_waits = False  # until nothing is in flight
        self._alone_until = self._now = 0.0
        self._tried: set[int] = set()  # the partitions of which a record was sent so
        self._survived: set[int] = set()

    # -- records that break the connection

    def connection_broke(self, records: Iterable[HeldRecord]) -> list[HeldRecord]:
        """Note records that were in flight when the connection broke; return the guilty ones."""
        guilty = []
        for each in records:
            breaks, counted, answers = self._breaks.pop(each.position, (0, 0, -1))
            counted += self._answers > answers
            if counted >= REFUSED_AFTER:
                guilty.append(each)
            else:
                self._breaks[each.position] = breaks + 1, counted, self._answers
        while len(self._breaks) > REMEMBERED:
            del self._breaks[next(iter(self._breaks))]
        return guilty

    def answered(self, records: Collection[HeldRecord]) -> None:
        """Note records that were answered, one way or the other: they broke nothing."""
        self._answers += len(records)
        if self._breaks:
            for each in records:
                self._breaks.pop(each.position, None)

    def least_suspicious(self, records: Iterator[HeldRecord]) -> HeldRecord | None:
        """Return the record to try a connection with: the one in flight at the fewest breaks."""
        return min(records, key=lambda each: self._breaks.get(each.position, (0,))[0], default=None)

    def must_go_alone(self, record: HeldRecord) -> bool:
        """Return whether a record has to be sent while nothing else is in flight."""
        return self._breaks.get(record.position, (0, 0))[1] >= ALONE_AFTER

    @property
    def suspects_breaks(self) -> bool:
        """Whether any record was in flight when the connection broke."""
        return bool(self._breaks)

    # -- records that kill the process

    def look_at(self, leases: HeldLeases) -> None:
        """Begin or end caution, as the leases say after a poll."""
        before = bool(self._left)
        for partition in list(self._left):
            lease = leases[partition]
            if lease is None or lease.crash_count < CAUTIOUS_AFTER:  # lost, or nobody had died
                del self._left[partition]
                self._tried.discard(partition)
        for partition in leases.partitions - self._left.keys():
            lease = leases[partition]
            if lease is not None and lease.crash_count >= CAUTIOUS_AFTER:
                # What one process may have had in flight of a partition, twice to be sure.
                share = max(LEAST_COVERED, -(-self._capacity // max(1, len(leases))))
                self._left[partition] = 2 * share
        self._log(before)

    def may_send(self, record: HeldRecord) -> bool:
        """Return whether a record may be sent as usual, beside others."""
        nothing_alone = self._alone is None and not self._alone_waits
        return nothing_alone and record.partition not in self._left

    def choose(
        self,
        order: KeyOrder,
        leases: HeldLeases,
        allowed: Callable[[HeldRecord], bool],
        room: int,
        now: float = 0.0,
    ) -> dict[HeldRecord, int]:
        """Choose the records to send one at a time, with how often their delivery will have begun.

        A record that may have killed a process goes alone: two would be blamed for each other.
        """
        self._now = now
        waited, self._alone_waits = self._alone_waits, False
        if now >= self._alone_until:
            self._alone = None
        if not self._left or self._alone is not None:
            return {}
        chosen: dict[int, HeldRecord] = {}
        for each in order.choices(lambda each: each.partition in self._left and allowed(each)):
            if each.partition not in self._suspects and (
                each.partition not in chosen or self._begun(each, leases)
            ):
                chosen[each.partition] = each
        begun = {each: self._begun(each, leases) + 1 for each in chosen.values()}
        alone = [each for each in begun if begun[each] > 1 or self._max_crashes == 1]
        if alone:
            if not waited:
                self._alone_until = now + ALONE_SECONDS
            self._alone_waits = bool(order.in_flight) and now < self._alone_until
            return {} if self._alone_waits or not room else {alone[0]: begun[alone[0]]}
        return {each: begun[each] for each in list(begun)[:room]}

    def kills(self, begun: int) -> bool:
        """Return whether a delivery has begun and not ended too often to try again."""
        return begun > self._max_crashes

    def sent(self, record: HeldRecord, begun: int) -> None:
        """Note that a record is in flight, and how often its delivery has begun."""
        self._suspects[record.partition] = record
        if begun > 1 or self._max_crashes == 1:
            self._alone, self._alone_until = record, self._now + ALONE_SECONDS
        self._tried.add(record.partition)

    def survived(self, order: KeyOrder) -> list[int]:
        """Note whose delivery has ended; return the partitions that need no caution any more."""
        for partition, suspect in list(self._suspects.items()):
            if not order.unsettled(suspect):
                del self._suspects[partition]
                if self._alone is suspect:
                    self._alone = None
                self._survived.add(suspect.position)
                if partition in self._left:
                    self._left[partition] -= 1
        tried = self._tried - self._suspects.keys()
        done = [
            p
            for p, left in self._left.items()
            if left <= 0 or (p in tried and not order.load(p).held)
        ]
        for partition in done:
            del self._left[partition]
            self._tried.discard(partition)
        if done:
            self._log(before=True)
        if not self._left:
            self._survived.clear()
        return done

    def _begun(self, record: HeldRecord, leases: HeldLeases) -> int:
        """Count the deliveries of a record that began, and did not end before the process did."""
        lease = leases[record.partition]
        if lease is None or lease.suspect != record.position or record.position in self._survived:
            return 0
        return lease.suspect_crashes

    def _log(self, before: bool) -> None:
        if self._left and not before:
            logger.warning(
                "postroom: workers died while they held %d partitions. The next %d records of"
                " these are delivered one at a time per partition, to find a record that kills",
                len(self._left),
                sum(self._left.values()),
            )
        elif before and not self._left:
            logger.warning(
                "postroom: no worker died since. Records are not sent one at a time any more"
            )
