"""Rows read as records. A bad value in a row never makes a claim fail: the record gets a fault."""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID

from postroom.record import ClaimedRecord, Key
from postroom.store.base import HeldRecord

TEXTS: Final = ("event_type", "aggregate_type", "aggregate_id", "payload", "headers", "status")
TIMES: Final = ("occurred_at", "created_at")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NO_HEADERS: Final[Mapping[str, Any]] = MappingProxyType({})
MAX_REASON: Final = 4000


class ClaimedRow(NamedTuple):
    """The columns that a claim reads, in their order. On SQLite, a column may hold anything."""

    position: int
    partition: int
    id: Any
    event_type: str
    event_version: Any
    aggregate_type: str | None
    aggregate_id: str | None
    payload: Any
    headers: Any
    status: str
    retry_count: Any
    max_retries: Any
    occurred_at: Any
    created_at: Any
    any_blocked: bool
    """Whether any key is blocked at all, which spares most claims a second statement."""
    was_due: int
    """Whether it had to wait for its time."""


def columns(as_text: Callable[[str], str], as_id: Callable[[str], str]) -> str:
    """Write how a claim reads them: no value stops it, not even a time that Python lacks."""
    known = "BETWEEN '0001-01-02' AND '9999-12-30'"
    written = {name: f"w.{name}" for name in ClaimedRow._fields[:-2]}
    written |= {name: as_text(f"w.{name}") for name in TEXTS} | {"id": as_id("w.id")}
    written |= {name: f"CASE WHEN w.{name} {known} THEN w.{name} END" for name in TIMES}
    return ", ".join(f"{how} AS {name}" for name, how in written.items())


def to_record(row: ClaimedRow, token: int, *, typed: bool) -> HeldRecord:
    """Read a row, with the first of its faults if it has any."""
    faults: list[str] = []
    if not typed or row.occurred_at is None or row.created_at is None:
        row = _repaired(row, faults)
    record = ClaimedRecord(
        position=row.position,
        partition=row.partition,
        id=row.id,
        event_type=row.event_type,
        event_version=row.event_version,
        aggregate_type=row.aggregate_type,
        aggregate_id=row.aggregate_id,
        payload_json=row.payload,
        headers=NO_HEADERS if row.headers == "{}" else _read(faults, row, "headers", _object, {}),
        retry_count=row.retry_count,
        max_retries=row.max_retries,
        occurred_at=row.occurred_at,
        created_at=row.created_at,
    )
    return HeldRecord(record, token, faults[0] if faults else None)


def _repaired(row: ClaimedRow, faults: list[str]) -> ClaimedRow:
    """Return a row with something in place of each value that cannot be read."""
    return row._replace(
        id=_read(faults, row, "id", _uuid, UUID(int=0)),
        event_version=_read(faults, row, "event_version", _whole, 0),
        payload=_read(faults, row, "payload", _json, "null"),
        retry_count=_read(faults, row, "retry_count", _whole, 0),
        max_retries=_read(faults, row, "max_retries", _whole_or_none, 0),
        occurred_at=_read(faults, row, "occurred_at", moment, EPOCH),
        created_at=_read(faults, row, "created_at", moment, EPOCH),
    )


def within_partition(source: str, floor: str) -> str:
    """Write the condition that reads a partition in order, from the index that is made for it.

    As a range the partition is part of the order, which the primary key cannot give. With an `=`
    the planner may walk that instead, through everything that was ever delivered.
    """
    return f"""(r.partition, r.position) > ({source}.partition, {floor})
        AND r.partition <= {source}.partition ORDER BY r.partition, r.position"""


def key_of(row: Any) -> Key:
    """Return the key of a row or record that has one."""
    return Key(row.aggregate_type or "", row.aggregate_id)


def keys_of(rows: Iterable[Any]) -> list[Key]:
    """Return the keys of rows or records, each once, without those that have none."""
    return sorted({key_of(row) for row in rows if row.aggregate_id is not None})


def moment(value: Any) -> datetime:
    """Read a time as PostgreSQL gives it, or as SQLite stores it."""
    read = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def storable(reason: str) -> str:
    """Return an error's text as every database can hold it."""
    text = reason.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 1]}…"


def _read(faults: list[str], row: ClaimedRow, column: str, reader: Any, otherwise: Any) -> Any:
    value = getattr(row, column)
    try:
        return reader(value)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        faults.append(f"column `{column}` holds {str(value)[:80]!r}: {error}")
        return otherwise


def _uuid(value: Any) -> UUID:
    return UUID(str(value))


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError("that is not a whole number")
    return value


def _whole_or_none(value: Any) -> int | None:
    return None if value is None else _whole(value)


def _json(value: Any) -> str:
    text = str(value)
    json.loads(text)
    return text


def _object(value: Any) -> dict[str, Any]:
    document = json.loads(value)
    if not isinstance(document, dict):
        raise ValueError("that is not a JSON object")
    return document
