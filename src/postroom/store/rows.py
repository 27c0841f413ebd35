"""Reads rows as records. A bad value makes the record fail, not the claim."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from postroom.record import ClaimedRecord, Key
from postroom.store.base import HeldRecord

TEXTS: Final = ("event_type", "aggregate_type", "aggregate_id", "payload_json", "headers", "status")
TIMES: Final = ("occurred_at", "created_at")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NO_HEADERS: Final[Mapping[str, Any]] = MappingProxyType({})
MAX_REASON: Final = 4000
UNREADABLE: Final = (ValueError, TypeError, RecursionError, OverflowError)
DECODER: Final = json.JSONDecoder().raw_decode
"""Reads what PostgreSQL wrote as JSON in half the time of `json.loads`."""

RECORD: Final = ClaimedRecord._fields[:-1]
"""The columns that are read as they are; then come the headers, as text, and the rest."""
POSITION, PARTITION, ID = map(RECORD.index, ("position", "partition", "id"))
HEADERS, STATUS, ANY_BLOCKED, SERVER, WAS_DUE = range(len(RECORD), len(RECORD) + 5)
"""Whether any key is blocked, or anything paused, spares most claims a second statement.
`was_due`: whether the record had to wait for its time."""
NEVER_SURE: Final = (*TIMES, "headers")
"""What may be wrong even if the database checks types: a time that Python lacks, a list."""
OCCURRED_AT, CREATED_AT = RECORD.index("occurred_at"), RECORD.index("created_at")


def columns(as_text: Callable[[str], str], as_id: Callable[[str], str]) -> str:
    """Write how a claim reads them: no value stops it, not even a time that Python lacks."""
    known = "BETWEEN '0001-01-02' AND '9999-12-30'"
    written = {name: f"w.{name}" for name in RECORD}
    written |= {name: as_text(f"w.{name.removesuffix('_json')}") for name in TEXTS}
    written |= {"id": as_id("w.id")}
    written |= {name: f"CASE WHEN w.{name} {known} THEN w.{name} END" for name in TIMES}
    return ", ".join(f"{how} AS {name}" for name, how in written.items())


def to_record(row: Sequence[Any], token: int, *, typed: bool) -> HeldRecord:
    """Read a row of a claim; `typed` if the database lets no column hold anything else."""
    if typed and row[OCCURRED_AT] is not None and row[CREATED_AT] is not None:
        try:
            headers = NO_HEADERS if row[HEADERS] == "{}" else _object(DECODER(row[HEADERS])[0])
        except UNREADABLE:
            pass
        else:
            values = (*row[:HEADERS], headers)
            return HeldRecord(tuple.__new__(ClaimedRecord, values), token)  # half the time of _make
    return _read_carefully(row, token, NEVER_SURE if typed else READERS)


def _read_carefully(row: Sequence[Any], token: int, doubtful: Iterable[str]) -> HeldRecord:
    """Read a row, with the first of its faults and something in place of what cannot be read."""
    fault = None
    values = dict(zip((*RECORD, "headers"), row, strict=False))
    for name in doubtful:
        reader, otherwise = READERS[name]
        try:
            values[name] = reader(values[name])
        except UNREADABLE as error:
            fault = fault or _fault(name, values[name], error)
            values[name] = otherwise
    return HeldRecord(ClaimedRecord(**values), token, fault, row[ID])


def _fault(name: str, value: Any, error: Exception) -> str:
    """Say what is wrong with a column; the value only of those that hold no secrets."""
    if name in ("payload_json", "headers"):
        return f"column `{name.removesuffix('_json')}` cannot be read: {error}"
    return f"column `{name}` holds {str(value)[:80]!r}: {error}"


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


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError("that is not a whole number")
    return value


def _json(value: Any) -> str:
    text = str(value)
    json.loads(text)
    return text


def _object(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ValueError("that is not a JSON object")
    return document


READERS: Final[Mapping[str, tuple[Callable[[Any], Any], Any]]] = {
    "id": (lambda value: UUID(str(value)), UUID(int=0)),
    "event_version": (_whole, 0),
    "payload_json": (_json, "null"),
    "retry_count": (_whole, 0),
    "max_retries": (lambda value: None if value is None else _whole(value), 0),
    "occurred_at": (moment, EPOCH),
    "created_at": (moment, EPOCH),
    "headers": (lambda value: _object(json.loads(value)), NO_HEADERS),
}
"""How to read the columns that may hold anything on SQLite, and what to take instead."""
