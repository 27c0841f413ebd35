"""Records: as lists show them, and how a row is read as one."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from postroom.database.transactions import Dialect
from postroom.inspection.pauses import Pause, covering
from postroom.inspection.reading import time_or_none
from postroom.record import Key, Status
from postroom.redaction import mask

TIMES: Final = ("created_at", "updated_at", "due_at", "published_at")


class RecordState(StrEnum):
    """The state of a record. All but `published` and `failed` are pending."""

    READY = "ready"
    """A worker may claim it now, or has claimed it."""
    WAITING = "waiting"
    """It waits for its time (`due_at`): a retry, or a delayed event."""
    PARKED = "parked"
    """It waits behind an earlier record of its key."""
    PAUSED = "paused"
    """An operator has paused its event type, its key, or the outbox."""
    FAILED = "failed"
    """It is not tried again until an operator retries it."""
    PUBLISHED = "published"
    """It is delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSummary:
    """A record without its payload."""

    position: int
    id: UUID
    event_type: str
    key: Key | None
    state: RecordState
    retry_count: int
    created_at: datetime | None
    updated_at: datetime | None
    due_at: datetime | None
    published_at: datetime | None
    error: str | None

    @property
    def is_pending(self) -> bool:
        """Whether it is neither delivered nor failed."""
        return self.state not in (RecordState.FAILED, RecordState.PUBLISHED)

    def __str__(self) -> str:
        return f"{self.event_type} {self.id}"


class RecordName(NamedTuple):
    """Position, id, event type and key of a record."""

    position: int
    id: UUID
    event_type: str
    key: Key | None


def known_time(column: str) -> str:
    """Write a column of times; NULL for a time that Python does not know."""
    return f"CASE WHEN {column} BETWEEN '0001-01-02' AND '9999-12-30' THEN {column} END"


def name_columns(sql: Dialect, row: str = "w") -> str:
    """Write the columns of a name, in the order of `record_name`. No value makes it fail."""
    texts = ("event_type", "aggregate_type", "aggregate_id")
    named = (f"{sql.text(f'{row}.{each}')} AS {each}" for each in texts)
    return ", ".join([f"{row}.position", f"{sql.identity(f'{row}.id')} AS id", *named])


def record_name(row: Any) -> RecordName:
    """Read a row that begins with the columns of a name."""
    position, identity, event_type, aggregate_type, aggregate_id, *_ = row
    key = None if aggregate_id is None else Key(aggregate_type or "", aggregate_id)
    return RecordName(position, uuid_of(identity), event_type, key)


def summary_columns(sql: Dialect, row: str = "w") -> str:
    """Write the columns of a summary. No value makes the statement fail."""
    return ", ".join(
        [
            name_columns(sql, row),
            *(f"{row}.{each}" for each in ("partition", "retry_count", "ready")),
            *(f"{sql.text(f'{row}.{each}')} AS {each}" for each in ("status", "error_message")),
            *(f"{known_time(f'{row}.{each}')} AS {each}" for each in TIMES),
        ]
    )


def summary(row: Any, pauses: Iterable[Pause] = ()) -> RecordSummary:
    """Read a row that begins with the columns of a summary."""
    name = record_name(row)
    return RecordSummary(
        **name._asdict(),
        state=state_of(row, covering(pauses, name.event_type, name.key)),
        retry_count=row.retry_count if isinstance(row.retry_count, int) else 0,
        created_at=time_or_none(row.created_at),
        updated_at=time_or_none(row.updated_at),
        due_at=time_or_none(row.due_at) if row.status == Status.PENDING else None,
        published_at=time_or_none(row.published_at),
        error=row.error_message and mask(row.error_message),
    )


def uuid_of(value: Any) -> UUID:
    """Read an id; on SQLite it may be any text."""
    try:
        return value if isinstance(value, UUID) else UUID(str(value))
    except ValueError:
        return UUID(int=0)


def state_of(row: Any, pause: Pause | None) -> RecordState:
    """Return the state of a record, which may be paused."""
    if row.status in (Status.PUBLISHED, Status.FAILED):
        return RecordState(row.status)
    if pause is not None:
        return RecordState.PAUSED
    if row.ready:
        return RecordState.READY
    return RecordState.PARKED if row.due_at is None else RecordState.WAITING
