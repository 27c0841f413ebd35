"""Rows read as records. A bad value in a row never makes a claim fail: the record gets a fault."""

import json
from collections.abc import Callable
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

    def read(column: str, reader: Callable[[Any], Any], otherwise: Any, *, sure: bool) -> Any:
        value = getattr(row, column)
        if sure:
            return value
        try:
            return reader(value)
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            faults.append(f"column `{column}` holds {str(value)[:80]!r}: {error}")
            return otherwise

    no_time = row.occurred_at is None or row.created_at is None
    record = ClaimedRecord(
        position=row.position,
        partition=row.partition,
        id=read("id", UUID, NO_ID, sure=typed),
        event_type=row.event_type,
        event_version=read("event_version", _whole, 0, sure=typed),
        aggregate_type=row.aggregate_type,
        aggregate_id=row.aggregate_id,
        payload_json=read("payload", _json, "null", sure=typed),
        headers={} if row.headers == "{}" else read("headers", _object, {}, sure=False),
        retry_count=read("retry_count", _whole, 0, sure=typed),
        max_retries=read("max_retries", _whole_or_none, 0, sure=typed),
        occurred_at=read("occurred_at", moment, EPOCH, sure=typed and not no_time),
        created_at=read("created_at", moment, EPOCH, sure=typed and not no_time),
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
