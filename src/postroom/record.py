"""`OutboxRecord` and `ClaimedRecord`: a row of the outbox, with its key and its partition."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID
from zlib import crc32

from sqlalchemy.ext.hybrid import hybrid_property

from postroom.identity import uuid7
from postroom.redaction import secret_values

PARTITIONS = 64
"""What workers divide among them; fixed for the life of a table."""
MAX_RETRIES = 10


class Status(StrEnum):
    """The status of a record, as its row has it."""

    PENDING = "pending"
    """Not delivered yet; waiting for a retry included."""
    PUBLISHED = "published"
    """Delivered."""
    FAILED = "failed"
    """Refused for the last time. An operator can retry, skip or discard it."""


class Key(NamedTuple):
    """Aggregate type and aggregate id. Records with the same key are delivered in order."""

    aggregate_type: str
    """The empty text for an aggregate without a type."""
    aggregate_id: str

    def __str__(self) -> str:
        """Return the key as logs and commands write it: order/7, or 7 for a key without a type."""
        if self.aggregate_type or "/" in self.aggregate_id:
            return f"{self.aggregate_type}/{self.aggregate_id}"
        return self.aggregate_id


def key_hash(aggregate_type: str | None, aggregate_id: str) -> int:
    """Hash a key alike in every process, for partitions and for the locks that keep its order."""
    return crc32(f"{aggregate_type or ''}\0{aggregate_id}".encode())


@dataclass(eq=False, kw_only=True)
class OutboxRecord:
    """An event as a row of the outbox. `Outbox` or `map_outbox_table` maps it to the table."""

    event_type: str
    payload: Any
    id: UUID = field(default_factory=uuid7)
    event_version: int = 1
    aggregate_type: str | None = None
    aggregate_id: str | None = None
    headers: dict[str, Any] = field(default_factory=dict)
    occurred_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    status: str = Status.PENDING
    retry_count: int = 0
    max_retries: int | None = MAX_RETRIES
    partition: int = field(init=False)
    # What the database fills in, and what happens to a record later.
    published_at: datetime | None = field(init=False, default=None)
    error_message: str | None = field(init=False, default=None)
    ready: bool = field(init=False, default=True)
    due_at: datetime | None = field(init=False, default=None)
    position: int | None = field(init=False, default=None)
    created_at: datetime | None = field(init=False, default=None)
    updated_at: datetime | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.aggregate_id is None:
            self.partition = self.id.int % PARTITIONS  # without a key: anywhere, evenly
        else:
            self.partition = key_hash(self.aggregate_type, self.aggregate_id) % PARTITIONS

    @hybrid_property
    def delivered(self) -> bool:
        """Whether the record is delivered. Works on an instance and in a query."""
        return self.status == Status.PUBLISHED

    @hybrid_property
    def delivered_at(self) -> datetime | None:
        """When the record was delivered: a synonym of `published_at`."""
        return self.published_at

    @hybrid_property
    def processed_at(self) -> datetime | None:
        """When the record was delivered: a synonym of `published_at`."""
        return self.published_at


class ClaimedRecord(NamedTuple):
    """A record as publishers get it: the values of its row when it was claimed. Immutable."""

    position: int
    """The number of the record; the order of its key."""
    partition: int
    """0 to 63, by a hash of the key."""
    id: UUID
    """The id of the event. Consumers recognise repeats by it."""
    event_type: str
    event_version: int
    """The version of the payload."""
    aggregate_type: str | None
    aggregate_id: str | None
    """None for a record without a key."""
    payload_json: str
    """The payload as JSON text."""
    retry_count: int
    """How often it was refused before."""
    max_retries: int | None
    """It fails on this refusal; None leaves that to the relay's schedule."""
    occurred_at: datetime
    """When the event happened, by the clock of the application."""
    created_at: datetime
    """When its transaction saved it, by the clock of the database."""
    headers: Mapping[str, Any]

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def key(self) -> Key | None:
        """The key that the record is ordered by; None if it is unordered."""
        if self.aggregate_id is None:
            return None
        return Key(self.aggregate_type or "", self.aggregate_id)

    @property
    def payload(self) -> Any:
        """The payload as Python values. Each access decodes it again."""
        return json.loads(self.payload_json)

    def __str__(self) -> str:
        name = f"{self.event_type} {self.id}"
        if self.aggregate_id is None:
            return name
        return f"{name} of {f'{self.aggregate_type or str()} {self.aggregate_id}'.strip()}"


def secrets_of(record: ClaimedRecord, patterns: Iterable[str]) -> frozenset[str]:
    """Return the values of a record's hidden fields, to `mask` them in texts about it."""
    try:
        return secret_values([record.payload, record.headers], patterns)
    except (ValueError, RecursionError):  # the payload is not JSON, or nested too deeply
        return secret_values([record.headers], patterns)
