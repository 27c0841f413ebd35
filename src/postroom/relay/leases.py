"""The leases of a lane, and until when, by its own clock, it may rely on them."""

from collections.abc import Callable, Iterable

from postroom.record import PARTITIONS, ClaimedRecord
from postroom.store.base import Lease

MARGIN = 0.2
"""The part of a lease, at its end, in which nothing new is started."""
LINGER = 5.0
"""Seconds for which a lease is kept after a record of its partition: the next is claimed sooner."""
MOST = PARTITIONS // 2
CAUTIOUS_AFTER = 2
"""From so many crashes in a row on, the records of a partition go one by one."""


class Leases:
    """Decides; does no I/O."""

    def __init__(self) -> None:
        self._leases: dict[int, Lease] = {}
        self._deadline = 0.0
        self._served: dict[int, float] = {}
        self._alone = False
        self.retiring: frozenset[int] = frozenset()
        self.cautious: set[int] = set()
        """The partitions whose records go one by one."""

    def __len__(self) -> int:
        return len(self._leases)

    def renew(self, leases: Iterable[Lease], *, asked_at: float, seconds: float) -> None:
        """Take what a poll gave; it counts from before the poll was sent."""
        self._leases = {lease.partition: lease for lease in leases}
        careful = (lease for lease in self._leases.values() if lease.crash_count >= CAUTIOUS_AFTER)
        self.cautious = {lease.partition for lease in careful}
        self._deadline = asked_at + (1 - MARGIN) * seconds

    def retire(self, share: int, use: Callable[[int], int]) -> None:
        """Choose what to give up when others are there to take it: what is least in use."""
        self._alone = share >= PARTITIONS
        surplus = len(self._leases) - share
        self.retiring = frozenset(sorted(self._leases, key=use)[: max(0, surplus)])

    def serve(self, partitions: Iterable[int], now: float) -> None:
        """Note that there was something to claim in these partitions."""
        self._served.update((partition, now) for partition in partitions)

    def lingering(self, now: float) -> set[int]:
        """Give the partitions to keep because they had records a moment ago, if nobody else waits.

        With others there, a share of those that have work is all that one is to hold.
        """
        if not self._alone:
            return set()
        return {p for p in self._leases if now - self._served.get(p, -LINGER) < LINGER}

    @property
    def are_most(self) -> bool:
        """Whether what is committed next is likely to be in a partition that is leased."""
        return self._alone and len(self._leases) >= MOST

    def alive(self, now: float) -> bool:
        """Tell whether anything new may be started."""
        return now < self._deadline

    def covers(self, record: ClaimedRecord) -> bool:
        """Tell whether a record was claimed under a lease that is held still."""
        lease = self._leases.get(record.partition)
        return lease is not None and lease.token == record.token

    def tokens(self) -> dict[int, int]:
        """Give the partitions to claim from, with their tokens."""
        return {
            lease.partition: lease.token
            for lease in self._leases.values()
            if lease.partition not in self.retiring
        }

    def crashes_of(self, record: ClaimedRecord) -> int:
        """Count the crashes while this very record was being delivered alone."""
        lease = self._leases.get(record.partition)
        if lease is None or lease.suspect != record.position:
            return 0
        return lease.suspect_crashes

    def calm(self, partition: int) -> None:
        """Forget the crashes of a partition."""
        if partition in self._leases:
            token = self._leases[partition].token
            self._leases[partition] = Lease(partition=partition, token=token)
            self.cautious.discard(partition)

    def clear(self) -> None:
        """Hold nothing."""
        self._leases, self._deadline, self.retiring = {}, 0.0, frozenset()
        self.cautious = set()
