"""Finds records that break connections or kill processes. Pure.

A record that breaks the connection for all looks like an outage. One that is in flight when the
connection breaks is sent again as before; after two breaks, alone; if it then breaks the connection
twice more, it is refused. A break counts only if others were answered since the last one.

A record that kills the process takes its lease with it. When two holders of a partition have died
in a row, the records that may have been in flight are sent one at a time per partition, each
written down before it is sent. A record whose delivery did not end is then sent alone in the
process. After `max_crashes` deliveries that did not end, it fails.
"""

import logging
from collections.abc import Collection, Iterable

from postroom.relay.leases import HeldLeases
from postroom.store.base import HeldRecord
from postroom.store.key_order import KeyOrder

logger = logging.getLogger("postroom.relay")

ALONE_AFTER = 2
REFUSED_AFTER = 2 * ALONE_AFTER
REMEMBERED = 10_000
ONE_BY_ONE_AFTER = 2
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
        self._tried: set[int] = set()  # the partitions of which a record was sent so
        self._suspects: dict[int, HeldRecord] = {}  # partition: the record in flight
        self._survived: set[int] = set()  # the positions of suspects whose delivery ended
        self._alone: HeldRecord | None = None  # others wait until it is sent, and until it ends,
        self._alone_until = 0.0  # but no longer than this
        self._one_by_one = False  # as the log says

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

    def least_suspicious(self, records: Iterable[HeldRecord]) -> HeldRecord | None:
        """Return the record to try a connection with: the one in flight at the fewest breaks."""
        return min(records, key=lambda each: self._breaks.get(each.position, (0,))[0], default=None)

    def must_go_alone(self, record: HeldRecord) -> bool:
        """Return whether a record has to be sent while nothing else is in flight."""
        return self._breaks.get(record.position, (0, 0))[1] >= ALONE_AFTER

    def first_to_go_alone(self, records: Iterable[HeldRecord]) -> HeldRecord | None:
        """Return the first record that has to be sent while nothing else is in flight."""
        return next(filter(self.must_go_alone, records), None) if self._breaks else None

    # -- records that kill the process

    def look_at(self, leases: HeldLeases) -> None:
        """Begin to send one by one, or end it, as the leases say after a poll."""
        held = leases.by_partition
        crashed = {p for p, lease in held.items() if lease.crash_count >= ONE_BY_ONE_AFTER}
        for partition in self._left.keys() - crashed:  # lost, or nobody had died
            self._send_as_usual(partition)
        # What one process may have had in flight of a partition, twice to be sure.
        share = max(LEAST_COVERED, -(-self._capacity // max(1, len(held))))
        for partition in crashed - self._left.keys():
            self._left[partition] = 2 * share
        self._log_change()

    @property
    def restricts(self) -> bool:
        """Whether some records may not be sent as usual."""
        return bool(self._alone or self._left or self._suspects)

    def may_send(self, partition: int) -> bool:
        """Return whether the records of a partition may be sent as usual, beside others."""
        return self._alone is None and partition not in self._left

    def choose(
        self, order: KeyOrder, leases: HeldLeases, room: int, now: float = 0.0
    ) -> dict[HeldRecord, int]:
        """Choose the records to send one at a time, with how often their delivery will have begun.

        A record that may have killed a process goes alone: two would be blamed for each other.
        """
        if self._alone in self._suspects.values():  # it is in flight
            if now < self._alone_until:
                return {}
            self._alone = None
        chosen: dict[int, HeldRecord] = {}
        for each in order.sendable if self._left else ():
            partition = each.partition
            free = partition in self._left and partition not in self._suspects
            first = partition not in chosen or self._begun(each, leases)
            if free and first and leases.covers(each, now):
                chosen[partition] = each
        begun = {each: self._begun(each, leases) + 1 for each in chosen.values()}
        alone = next((each for each in begun if self._goes_alone(begun[each])), None)
        if alone is None:
            self._alone = None
            return {each: begun[each] for each in list(begun)[:room]}
        if self._alone is None:
            self._alone_until = now + ALONE_SECONDS
        waits = order.in_flight and now < self._alone_until
        self._alone = alone if waits else None
        return {} if waits or not room else {alone: begun[alone]}

    def kills(self, begun: int) -> bool:
        """Return whether a delivery has begun and not ended too often to try again."""
        return begun > self._max_crashes

    def sent(self, record: HeldRecord, begun: int, now: float = 0.0) -> None:
        """Note that a record is in flight, and how often its delivery has begun."""
        self._suspects[record.partition] = record
        self._tried.add(record.partition)
        if self._goes_alone(begun):
            self._alone, self._alone_until = record, now + ALONE_SECONDS

    def survived(self, order: KeyOrder) -> list[int]:
        """Note whose delivery has ended; return the partitions to serve as usual again."""
        for partition, suspect in list(self._suspects.items()):
            if not order.unsettled(suspect):
                del self._suspects[partition]
                self._survived.add(suspect.position)
                if self._alone is suspect:
                    self._alone = None
                if partition in self._left:
                    self._left[partition] -= 1
        ended = self._tried - self._suspects.keys()
        done = [
            partition
            for partition, left in self._left.items()
            if left <= 0 or (partition in ended and not order.load(partition).held)
        ]
        for partition in done:
            self._send_as_usual(partition)
        if not self._left:
            self._survived.clear()
        self._log_change()
        return done

    def _begun(self, record: HeldRecord, leases: HeldLeases) -> int:
        """Count the deliveries of a record that began, and did not end before the process did."""
        lease = leases.by_partition.get(record.partition)
        if lease is None or lease.suspect != record.position or record.position in self._survived:
            return 0
        return lease.suspect_crashes

    def _goes_alone(self, begun: int) -> bool:
        return begun > 1 or self._max_crashes == 1

    def _send_as_usual(self, partition: int) -> None:
        del self._left[partition]
        self._tried.discard(partition)

    def _log_change(self) -> None:
        if self._one_by_one == bool(self._left):
            return
        self._one_by_one = bool(self._left)
        if self._one_by_one:
            logger.warning(
                "postroom: workers died while they held %d partitions. The next %d records of"
                " these are delivered one at a time per partition, to find a record that kills",
                len(self._left),
                sum(self._left.values()),
            )
        else:
            logger.warning(
                "postroom: no worker died since. Records are not sent one at a time any more"
            )
