"""Pauses and the audit: what operators have paused, and what they have changed."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text

from postroom.database.database import Run
from postroom.inspection.reading import Reader, time_of
from postroom.inspection.wording import key_text
from postroom.record import Key

CHANGES_LOOKED_AT: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause in force: of an event type, of a key, or of the whole outbox."""

    event_type: str | None
    """The paused event type; None for a key or the whole outbox."""
    key: Key | None
    """The paused key; None for an event type or the whole outbox."""
    paused_at: datetime
    operator: str | None
    host: str | None
    reason: str | None

    def covers(self, event_type: str, key: Key | None) -> bool:
        """Return whether the pause applies to records of this type and key."""
        return self.key == key if self.key is not None else self.event_type in (None, event_type)

    def __str__(self) -> str:
        return key_text(self.key) if self.key is not None else self.event_type or "the outbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change by an operator: a row of the audit."""

    id: int
    changed_at: datetime
    operator: str
    host: str
    action: str
    target: str
    records: int
    details: Any


class Changes:
    """Reads pauses and the audit."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        n, sql = reader.database, reader.database.sql
        self._pauses = text(f"""SELECT event_type, aggregate_type, aggregate_id, paused_at,
            operator, host, reason FROM {n.pauses} ORDER BY paused_at LIMIT 1000""")
        self._audit = text(f"""SELECT id, changed_at, operator, host, action, target, records,
            {sql.text("details")} AS details FROM {n.audit} WHERE id < :before
            ORDER BY id DESC LIMIT :limit""")
        newest = f"SELECT * FROM {n.audit} ORDER BY id DESC LIMIT {CHANGES_LOOKED_AT}"
        self._of_record = text(f"""SELECT id, changed_at, operator, host, action, target, records,
            {sql.text("details")} AS details FROM ({newest}) AS newest
            WHERE {sql.contains(sql.text("details"), "record")} ORDER BY id DESC""")

    async def pauses(self, run: Run) -> tuple[Pause, ...]:
        """Return what is paused, the longest first."""
        return tuple(map(_pause, await run(self._pauses)))

    async def audit(self, limit: int, before: int | None) -> tuple[Change, ...]:
        """Return the newest changes."""
        async with self._reader.ask("the audit") as run:
            rows: Sequence[Any] = await run(self._audit, limit=limit, before=before or 2**62)
            return tuple(map(_change, rows))

    async def of_record(self, record: UUID) -> tuple[Change, ...]:
        """Return the newest changes that name a record."""
        async with self._reader.ask("the audit of a record") as run:
            rows: Sequence[Any] = await run(self._of_record, record=str(record))
            return tuple(map(_change, rows))


def covering(pauses: Iterable[Pause], event_type: str, key: Key | None) -> Pause | None:
    """Return the first pause that a record is under."""
    return next((each for each in pauses if each.covers(event_type, key)), None)


def _pause(row: Any) -> Pause:
    key = Key(row.aggregate_type, row.aggregate_id) if row.aggregate_id else None
    return Pause(
        event_type=row.event_type or None,
        key=key,
        paused_at=time_of(row.paused_at),
        operator=row.operator,
        host=row.host,
        reason=row.reason,
    )


def _change(row: Any) -> Change:
    return Change(
        id=row.id,
        changed_at=time_of(row.changed_at),
        operator=row.operator,
        host=row.host,
        action=row.action,
        target=row.target,
        records=row.records,
        details=json.loads(row.details),
    )
