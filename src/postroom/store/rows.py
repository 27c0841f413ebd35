"""Rows read as records. A bad value in a row never makes a claim fail: the record gets a fault."""

import json
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from postroom.record import ClaimedRecord
from postroom.store.base import HeldRecord

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NO_ID: Final = UUID(int=0)
MAX_REASON: Final = 4000


def to_record(row: Any, token: int, *, typed: bool) -> HeldRecord:
    """Read a row, with the first of its faults if it has any."""
    faults: list[str] = []
    identity, version, payload, headers = row.id, row.event_version, row.payload, row.headers
    retries, limit, occurred, created = (
        row.retry_count,
        row.max_retries,
        row.occurred_at,
        row.created_at,
    )
    if not typed:  # a column may hold anything
        identity = _read(faults, "id", identity, UUID, NO_ID)
        version = _read(faults, "event_version", version, _whole, 0)
        payload = _read(faults, "payload", payload, _json, "null")
        retries = _read(faults, "retry_count", retries, _whole, 0)
        limit = _read(faults, "max_retries", limit, _whole_or_none, 0)
    if not typed or occurred is None or created is None:
        occurred = _read(faults, "occurred_at", occurred, moment, EPOCH)
        created = _read(faults, "created_at", created, moment, EPOCH)
    record = ClaimedRecord(
        position=row.position,
        partition=row.partition,
        id=identity,
        event_type=row.event_type,
        event_version=version,
        aggregate_type=row.aggregate_type,
        aggregate_id=row.aggregate_id,
        payload_json=payload,
        headers={} if headers == "{}" else _read(faults, "headers", headers, _object, {}),
        retry_count=retries,
        max_retries=limit,
        occurred_at=occurred,
        created_at=created,
    )
    return HeldRecord(record, token, faults[0] if faults else None)


def moment(value: Any) -> datetime:
    """Read a time as PostgreSQL gives it, or as SQLite stores it."""
    read = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def storable(reason: str) -> str:
    """Return an error's text as every database can hold it."""
    text = reason.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 1]}…"


def _read(faults: list[str], column: str, value: Any, reader: Any, otherwise: Any) -> Any:
    try:
        return reader(value)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        faults.append(f"column `{column}` holds {str(value)[:80]!r}: {error}")
        return otherwise


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
