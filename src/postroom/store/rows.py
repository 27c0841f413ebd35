"""Rows read as records. Nothing that a row can hold makes a claim fail: it makes a fault."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from postroom.record import ClaimedRecord, Key, Status
from postroom.store.base import Lease

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOBODY = UUID(int=0)
MAX_REASON = 4000
# By number, not by name: these are read for every record.
POSITION, PARTITION, STATUS, GATED, WAS_DUE = 0, 1, 11, 14, 15


class Rows:
    """What a window gave, each row once: those to deliver, and those that are done."""

    def __init__(self, rows: Iterable[Any]) -> None:
        by_position = {row[POSITION]: row for row in rows}
        self._all = [row for _, row in sorted(by_position.items())]
        self.done = [row[POSITION] for row in self._all if row[STATUS] != Status.PENDING]
        self.gated = any(row[GATED] for row in self._all[:1])
        """Whether there was any gate at all at that moment."""

    def partitions(self, *, at_least: int) -> set[int]:
        """Give the partitions that so many rows are of."""
        counts = Counter(row[PARTITION] for row in self._all)
        return {partition for partition, count in counts.items() if count >= at_least}

    def records(self, tokens: Mapping[int, int], *, valid_json: bool) -> dict[ClaimedRecord, bool]:
        """Read the rows to deliver, in order, with whether their time had come."""
        return {
            to_record(row, tokens[row[PARTITION]], valid_json=valid_json): bool(row[WAS_DUE])
            for row in self._all
            if row[STATUS] == Status.PENDING
        }


def to_record(row: Any, token: int, *, valid_json: bool) -> ClaimedRecord:
    """Read a row, with the first of its faults if it has any."""
    position, partition, version, retries, limit, identity, *texts, occurred, created, _, _ = row
    event_type, aggregate_type, aggregate_id, payload, headers, _ = texts
    faults: list[str] = []
    if not valid_json:  # nor is anything else what its column says
        version = _read(faults, "event_version", version, _whole, 0)
        retries = _read(faults, "retry_count", retries, _whole, 0)
        limit = _read(faults, "max_retries", limit, _whole_or_none, 0)
        payload = _read(faults, "payload", payload, _json, "null")
        identity = _read(faults, "id", identity, UUID, NOBODY)
    if not valid_json or occurred is None or created is None:
        occurred = _read(faults, "occurred_at", occurred, moment, EPOCH)
        created = _read(faults, "created_at", created, moment, EPOCH)
    return ClaimedRecord(
        position=position,
        partition=partition,
        token=token,
        id=identity,
        event_type=event_type,
        event_version=version,
        aggregate_type=aggregate_type,
        aggregate_id=aggregate_id,
        payload_json=payload,
        headers={} if headers == "{}" else _read(faults, "headers", headers, _object, {}),
        retry_count=retries,
        max_retries=limit,
        occurred_at=occurred,
        created_at=created,
        fault=faults[0] if faults else None,
    )


def to_lease(row: Any) -> Lease:
    """Read the row of a lease."""
    return Lease(
        partition=row.partition,
        token=row.token,
        crash_count=row.crash_count,
        suspect=row.suspect,
        suspect_crashes=row.suspect_crashes,
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
    document = json.loads(value)
    if not isinstance(document, dict):
        raise ValueError("that is no JSON object")
    return document
