"""The values that pass between the relay and the store: leases, claims, settlements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Self
from uuid import UUID

from postroom.record import PARTITIONS, ClaimedRecord, Key


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to deliver the records of a partition, for a while."""

    partition: int
    token: int
    """Grows with each holder, so that refusals written by an earlier holder are turned away."""
    crash_count: int = 0
    """How many holders in a row died."""
    suspect: UUID | None = None
    """The id of a record that was delivered with care when holders died."""
    suspect_crashes: int = 0
    """How many died so."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """What operators have paused: everything, some event types, some keys."""

    everything: bool = False
    event_types: frozenset[str] = frozenset()
    keys: frozenset[Key] = frozenset()

    @classmethod
    def of(cls, rows: Sequence[Any]) -> Self:
        """Read rows of the table of pauses."""
        about_keys = (row for row in rows if row.aggregate_id)
        keys = frozenset(Key(row.aggregate_type, row.aggregate_id) for row in about_keys)
        types = frozenset(row.event_type for row in rows if not row.aggregate_id)
        return cls("" in types, types - {""}, keys)

    def __bool__(self) -> bool:
        return self.everything or bool(self.event_types or self.keys)

    def hold(self, record: "HeldRecord") -> bool:
        """Return whether a record is paused."""
        paused = record.record.event_type in self.event_types or record.key in self.keys
        return self.everything or paused


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """The leases that a worker holds after a poll, and what it should know of the others."""

    leases: tuple[Lease, ...] = ()
    waiting: int = 0
    """How many partitions have work, those of other workers included."""
    share: int = PARTITIONS
    """How many partitions the worker should hold, so that others can take the rest."""
    next_due: timedelta | None = None
    """The time until the next delayed or retried record may be sent."""
    pauses: Pauses = Pauses()
    draining: bool = False
    """Whether an operator drains the worker: it gets no leases until it is resumed."""
    active: str | None = None
    """On SQLite: the worker that delivers while this one stands by."""
    server: int | None = None
    """What tells the database from another one, such as a standby or a restored backup."""


class HeldRecord:
    """A claimed record with what the relay alone knows of it; publishers get `record`.

    - `id`: as the database has it. A position may be given out again, where commits were lost
    - `token`: of the lease that it was claimed under
    - `fault`: why the row cannot be read as a record; None for a good one
    - `queue`: its key, or its id if it has none: it waits for nobody
    - `blocks_key`: whether the database holds back later records of its key until it is settled
    - `seconds`: how long the publisher took to refuse it
    """

    __slots__ = (
        *("blocks_key", "fault", "id", "key", "partition", "position", "queue", "record"),
        *("seconds", "token"),
    )

    def __init__(
        self, record: ClaimedRecord, token: int, fault: str | None = None, id_: Any = None
    ) -> None:
        self.record = record
        self.id = record.id if id_ is None else id_
        self.token = token
        self.fault = fault
        self.blocks_key = False
        self.seconds = 0.0
        self.position, self.partition = record.position, record.partition
        self.key = record.key
        self.queue = self.id if self.key is None else self.key

    def __repr__(self) -> str:
        return f"HeldRecord({self.record})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Records to deliver, each key's in order."""

    records: tuple[HeldRecord, ...]
    more: frozenset[int] = frozenset()
    """The partitions that may have more."""
    reached: Mapping[int, int] = field(default_factory=dict)
    """By partition: the position up to which everything that is ready was read."""
    server: int | None = None
    """As of a poll; None if nothing was found."""


class Verdict(StrEnum):
    """What follows for a record that was not delivered."""

    RETRY = "retry"
    """It was refused. That counts as an attempt. It is tried again after a delay."""
    POSTPONED = "postponed"
    """Its route cannot be used. No attempt is counted. It is tried again after a delay."""
    QUARANTINED = "quarantined"
    """Workers died while they delivered it. It is tried again, alone, after a delay."""
    FAILED = "failed"
    """It was refused for the last time. It is not tried again until an operator retries it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt to deliver a record that did not succeed, and what follows from it."""

    record: HeldRecord
    verdict: Verdict
    reason: str | None
    """None leaves the error message of the row as it is."""
    retry_count: int
    delay: timedelta = timedelta()
    """The time until the next attempt; not used for a record that failed."""
    blocks_key: bool = True
    """Whether later records of its key wait for it."""
    error: BaseException | None = None
    """What is logged with its traceback."""


@dataclass(slots=True, kw_only=True)
class Settlement:
    """The results of deliveries.

    A delivery is written even if the worker has lost its lease. The rest is written only under the
    lease that the delivery began under.
    """

    worker: str = ""
    """Who delivered, and must hold the leases; not asked if it is empty."""
    delivered: list[HeldRecord] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    slow: list[HeldRecord] = field(default_factory=list)
    """Not settled yet: the database is to park the later records of their keys."""

    def __str__(self) -> str:
        return f"{len(self.delivered)} delivered, {len(self.attempts)} not delivered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """How many records a clean-up deleted, and the position to go on from; None at the end."""

    deleted: int
    last: int | None
