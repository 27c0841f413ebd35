"""Rows read as records. Nothing that a row can hold makes a claim fail: it makes a fault."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from postroom.record import ClaimedRecord, Key

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOBODY = UUID(int=0)
MAX_REASON = 4000


def to_record(row: Any, token: int, *, valid_json: bool) -> ClaimedRecord:
    """Read a row, with the first of its faults if it has any."""
    faults: list[str] = []
    return ClaimedRecord(
        position=row.position,
        partition=row.partition,
        token=token,
        id=_read(faults, "id", row.id, _uuid, NOBODY),
        event_type=row.event_type,
        event_version=_read(faults, "event_version", row.event_version, _whole, 0),
        aggregate_type=row.aggregate_type,
        aggregate_id=row.aggregate_id,
        payload_json=_read(faults, "payload", row.payload, str if valid_json else _json, "null"),
        headers=_read(faults, "headers", row.headers, _object, {}),
        retry_count=_read(faults, "retry_count", row.retry_count, _whole, 0),
        max_retries=_read(faults, "max_retries", row.max_retries, _whole_or_none, 0),
        occurred_at=_read(faults, "occurred_at", row.occurred_at, moment, EPOCH),
        created_at=_read(faults, "created_at", row.created_at, moment, EPOCH),
        fault=faults[0] if faults else None,
    )


def moment(value: Any) -> datetime:
    """Read a time as PostgreSQL gives it, or as SQLite stores it."""
    read = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def sift(
    rows: Mapping[ClaimedRecord, bool], gates: Mapping[Key, int]
) -> tuple[list[ClaimedRecord], list[ClaimedRecord]]:
    """Divide records (and whether their time had come) into those that may leave and the rest.

    Up to the gate of its key a record may leave; a delayed one waits for its turn behind it.
    """
    passing: list[ClaimedRecord] = []
    parked: list[ClaimedRecord] = []
    for record, was_due in rows.items():
        gate = gates.get(record.key) if record.key is not None else None
        record.is_gate = gate == record.position
        free = gate is None or record.is_gate or (record.position < gate and not was_due)
        (passing if free else parked).append(record)
    return passing, parked


def storable(reason: str) -> str:
    """Make an error's text one that every database holds."""
    text = reason.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 1]}…"


def _read(faults: list[str], column: str, value: Any, reader: Any, otherwise: Any) -> Any:
    try:
        return reader(value)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        faults.append(f"column `{column}` holds {str(value)[:80]!r}: {error}")
        return otherwise


def _uuid(value: Any) -> UUID:
    return UUID(value)


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError("that is no whole number")
    return value


def _whole_or_none(value: Any) -> int | None:
    return None if value is None else _whole(value)


def _json(value: Any) -> str:
    text = str(value)
    json.loads(text)
    return text


def _object(value: Any) -> dict[str, Any]:
    if value == "{}":
        return {}
    document = json.loads(value)
    if not isinstance(document, dict):
        raise ValueError("that is no JSON object")
    return document
