"""The seam between the relay and the database: who may deliver what, and how it went."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from postroom.record import PARTITIONS, ClaimedRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to deliver the records of a partition, for a while."""

    partition: int
    token: int
    """Grows with each holder: what an earlier one writes about failures is turned away."""
    crash_count: int = 0
    """How often in a row the lease ran out instead of being given back."""
    suspect: int | None = None
    """The record that was being delivered alone when it ran out, by position."""
    suspect_crashes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """What a worker holds now."""

    leases: tuple[Lease, ...] = ()
    waiting: int = 0
    """In how many partitions there is work, whoever holds them."""
    share: int = PARTITIONS
    """How many it should hold, now that others are there to take the rest."""
    next_due: timedelta | None = None
    """How long until a record that waits for its time may leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Records to deliver, each key's in order."""

    records: tuple[ClaimedRecord, ...]
    more: frozenset[int]
    """The partitions that may have more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A record that was refused: tried again after `delay`, or failed where that is None."""

    record: ClaimedRecord
    reason: str
    retry_count: int
    delay: timedelta | None
    holds: bool = True
    """Whether later records of its key wait for it."""


@dataclass(slots=True, kw_only=True)
class Settlement:
    """How deliveries went. Facts (delivered) stand; the rest needs the lease they began under.

    Whoever is not sure of the lease any more marks a delivered record as a gate: the next holder
    may have made it one.
    """

    delivered: list[ClaimedRecord] = field(default_factory=list)
    refused: list[Attempt] = field(default_factory=list)
    slow: list[ClaimedRecord] = field(default_factory=list)
    """Still on their way: have the database keep back the later ones of their keys meanwhile."""

    def __bool__(self) -> bool:
        return bool(self.delivered or self.refused or self.slow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What the outbox holds; what has been delivered is not counted."""

    ready: int
    """May leave now."""
    waiting: int
    """For their time: to be tried again, or delayed."""
    held: int
    """Behind a record of their own key."""
    failed: int
    """Given up on, until somebody retries, skips or discards them."""
    blocked_keys: int
    oldest_ready: timedelta | None
    """How long the oldest of those that may leave has been there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What a clean-up has done, and where to go on: None when there is nothing older."""

    deleted: int
    last: int | None


class Store(Protocol):
    """The outbox in one kind of database. Every call is a short transaction of its own."""

    async def open(self) -> None:
        """Check that the tables are there; raises SchemaError."""

    async def poll(
        self,
        worker: str,
        *,
        busy: Collection[int] = (),
        retiring: Collection[int] = (),
        take: bool = True,
        lease: timedelta,
    ) -> Poll:
        """Renew what has work or is busy, give the rest back, take a fair share of what is free.

        One query, also when there is nothing to do. `retiring` partitions go back once idle;
        without `take`, all that is not busy does.
        """

    async def claim(
        self,
        tokens: Mapping[int, int],
        *,
        depth: int,
        held: Collection[int] = (),
    ) -> Claim:
        """Read up to `depth` records of each partition, but those `held` (by position) already.

        Meets followers of a blocked key once: they are parked on the way.
        """

    async def suspect(self, worker: str, record: ClaimedRecord) -> bool:
        """Write down what is about to be delivered alone; False when the lease is lost."""

    async def calm(self, worker: str, partition: int) -> None:
        """Forget the crashes of a partition: it has been served without one."""

    async def settle(self, settlement: Settlement) -> list[Attempt]:
        """Write down how deliveries went, in one transaction; give the refusals that it wrote."""

    async def leave(self, worker: str) -> None:
        """Give every lease back."""

    async def clean(self, *, older_than: timedelta, after: int = 0, limit: int = 1000) -> Cleaned:
        """Look at so many records after a position, and delete those delivered longer ago.

        Does nothing while another worker cleans up. At the end of a round, old receipts go too.
        """

    async def mend(self) -> int:
        """Put right what nobody would ever claim, as an edit by hand may leave it."""

    async def counts(self) -> Counts:
        """Count what has not been delivered."""

    async def retry(self, ids: Iterable[UUID]) -> int:
        """Have failed or waiting records tried again now, their count of attempts at 0."""

    async def skip(self, ids: Iterable[UUID]) -> int:
        """Leave failed records as they are, and let the later ones of their keys go."""

    async def discard(self, ids: Iterable[UUID]) -> int:
        """Delete records that are not delivered, and let the later ones of their keys go."""
