"""Which leases the worker holds, and until when it may rely on them. Pure."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from postroom.record import PARTITIONS
from postroom.relay.observer import Observers
from postroom.store.base import HeldRecord, Lease

MARGIN = 0.2
"""The part of a lease, at its end, in which nothing new is started."""
LINGER = 5.0
"""Seconds for which a worker that is alone keeps its leases after the last record."""
SURPLUS_SECONDS = 1.0
"""Seconds to send what was claimed of a partition to release. The rest is left to others."""


class HeldLeases:
    """Says what may be claimed and sent. The worker's own monotonic clock decides."""

    def __init__(self, seconds: float, observers: Observers | None = None) -> None:
        self.tokens: Mapping[int, int] = {}
        """Of the leases that it holds, by partition."""
        self.surplus: dict[int, float] = {}
        """The partitions to release, because others are there to take them, and since when."""
        self.lock = asyncio.Lock()
        """A poll and a heartbeat change the same rows: one at a time."""
        self._observers = observers or Observers()
        self._usable = (1 - MARGIN) * seconds
        self._deadlines: dict[int, float] = {}
        self._last: dict[int, int] = {}  # the tokens of all leases that it has held
        self._all_until = 0.0  # the first of the deadlines
        self._served = -LINGER
        self._alone = False

    def polled(self, leases: Iterable[Lease], *, asked_at: float) -> set[int]:
        """Hold what a poll returned; it counts from before the poll was sent.

        Returns the partitions that other workers have held since this one did.
        """
        self.tokens = {lease.partition: lease.token for lease in leases}
        self._all_until = asked_at + self._usable
        self._deadlines = dict.fromkeys(self.tokens, self._all_until)
        self.surplus = {p: since for p, since in self.surplus.items() if p in self.tokens}
        self._observers.tell(lambda it: it.leased(len(self.tokens)))
        last, self._last = self._last, {**self._last, **self.tokens}
        return {p for p, token in self.tokens.items() if token > last.get(p, 0) + 1}

    def renewed(self, tokens: Mapping[int, int], *, asked_at: float) -> None:
        """Rely longer on what a heartbeat renewed."""
        for partition, token in tokens.items():
            if self.tokens.get(partition) == token:
                until = max(self._deadlines[partition], asked_at + self._usable)
                self._deadlines[partition] = until
        self._all_until = min(self._deadlines.values(), default=0.0)

    def limit(self, share: int, use: Callable[[int], int], *, now: float) -> None:
        """Choose what to release for others: the partitions that are least in use."""
        self._alone = share >= PARTITIONS
        least = sorted(self.tokens, key=use)[: max(0, len(self.tokens) - share)]
        self.surplus = {each: self.surplus.get(each, now) for each in least}

    def served(self, now: float) -> None:
        """Note that there was something to claim."""
        self._served = now

    def lingering(self, now: float) -> set[int]:
        """Return the partitions to keep because there were records a moment ago.

        None, if there are other workers: a worker is to hold only its share of those with work.
        """
        lingers = self._alone and now - self._served < LINGER
        return set(self.tokens) if lingers else set()

    def covers(self, record: HeldRecord, now: float) -> bool:
        """Return whether a record may be sent: its lease is held, and not about to end."""
        return self.holds(record) and now < self._deadlines[record.partition]

    def holds(self, record: HeldRecord) -> bool:
        """Return whether the lease that a record was claimed under is held still."""
        return self.tokens.get(record.partition) == record.token

    def leaves(self, record: HeldRecord, now: float) -> bool:
        """Return whether a record that was not sent is left to another worker.

        Its lease is lost; or its partition is to be released, and deliveries are so slow that what
        was claimed of it would keep it from another worker for long.
        """
        since = self.surplus.get(record.partition, now)
        return not self.holds(record) or now - since >= SURPLUS_SECONDS

    def usable(self, now: float) -> Mapping[int, int]:
        """Return the partitions whose records may be sent, with the tokens of their leases."""
        if now < self._all_until:
            return self.tokens
        return {p: token for p, token in self.tokens.items() if now < self._deadlines[p]}

    def claimable(self, now: float) -> dict[int, int]:
        """Return the partitions to claim from, with the tokens of their leases."""
        return {p: token for p, token in self.usable(now).items() if p not in self.surplus}
