"""Deliveries and refusals as they happen (`postroom tail`).

No index orders deliveries by time, and none is worth its cost to writers. So each poll reads the
records that are next in line, the newest ones, and the newest attempts: a few thousand rows of
indexes that exist. A record that was next in line, and is not any more, was delivered.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text

from postroom.database.database import Run, as_rows
from postroom.inspection.reading import Reader, time_of, time_or_none
from postroom.inspection.records import RecordState, RecordSummary, summary, summary_columns
from postroom.record import PARTITIONS, Key, Status
from postroom.store.rows import within_partition

NEXT_IN_LINE: Final = 50
"""How many ready records of each partition are watched, and how many that wait for their time."""
NEWEST: Final = 5_000
"""How many new records, and new attempts, a poll reads at most."""
OVERLAP: Final = 500
"""How many of the records and attempts that were read before are read again.

Their numbers are given before the commit: a lower number may be visible later than a higher one.
"""


class ActivityKind(StrEnum):
    """What happened to a record."""

    DELIVERED = "delivered"
    """It was delivered."""
    REFUSED = "refused"
    """It was refused, and is tried again."""
    FAILED = "failed"
    """It was refused, and failed."""
    GONE = "gone"
    """It was deleted: discarded, or delivered by a relay that keeps no delivered records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """A delivery or a refusal of a record."""

    kind: ActivityKind
    at: datetime
    """When it happened; for a record that is gone, when that was noticed."""
    position: int
    id: UUID
    event_type: str
    key: Key | None
    attempts: int
    reason: str | None = None
    worker: str | None = None
    took: timedelta | None = None
    """For a delivery, the time since the record was created; for a refusal, that of the attempt."""


class Activity:
    """Reads deliveries and refusals as they happen. `Inspector.activity` makes it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        n, sql = reader.database, reader.database.sql
        columns = summary_columns(sql)
        self._heads = text(f"""SELECT
            (SELECT coalesce(max(position), 0) FROM {n.records}) AS position,
            (SELECT coalesce(max(id), 0) FROM {n.attempts}) AS attempt""")
        partitions = sql.rows("partitions", {"partition": "integer"})
        ready = f"r.ready AND {within_partition('partitions', '0')} LIMIT {NEXT_IN_LINE}"
        due = f"""r.due_at IS NOT NULL AND r.status = 'pending'
            AND r.partition = partitions.partition
            ORDER BY r.due_at, r.position LIMIT {NEXT_IN_LINE}"""
        self._next = text(f"""SELECT {columns} FROM {sql.each(partitions, n.records, ready)}
            UNION ALL SELECT {columns} FROM {sql.each(partitions, n.records, due)}""")
        self._newest = text(f"""SELECT {columns} FROM {n.records} w WHERE w.position > :after
            ORDER BY w.position LIMIT {NEWEST}""")
        self._at = text(f"""SELECT {columns} FROM {n.records} w
            WHERE w.position {sql.among("positions")}""")
        self._attempts = text(f"""SELECT {columns}, a.id AS attempt, a.attempted_at,
                a.retry_count AS count, a.verdict, a.reason, a.worker, a.seconds
            FROM (SELECT * FROM {n.attempts} WHERE id > :after ORDER BY id LIMIT {NEWEST}) AS a
            JOIN {n.records} w ON w.position = a.position ORDER BY a.id""")
        self._partitions = as_rows({"partition": number} for number in range(PARTITIONS))
        self._watched: dict[int, Any] = {}
        """Rows of records that are not delivered: the next in line, and the newest."""
        self._reported: dict[int, datetime | None] = {}
        """When the newest records were delivered, as far as it was reported."""
        self._reported_attempts: set[int] = set()
        self._position, self._attempt = 0, 0

    async def start(self) -> None:
        """Remember the current state of the outbox: only later changes are reported."""
        async with self._reader.ask("the activity") as run:
            [heads] = await run(self._heads)
            self._position, self._attempt = heads.position, heads.attempt
            await self._refusals(run)
            newest = await self._read_newest(run)
            self._watched = await self._undelivered(run, newest)
        self._reported = {row.position: time_or_none(row.published_at) for row in newest}

    async def poll(self) -> list[Happening]:
        """Return the deliveries and refusals since the last poll, in order of time."""
        async with self._reader.ask("the activity") as run:
            now = await self._reader.now(run)
            happened = await self._refusals(run)
            newest = await self._read_newest(run)
            before, self._watched = self._watched, await self._undelivered(run, newest)
            left = {position: before[position] for position in before.keys() - self._watched}
            positions = self._reader.database.sql.numbers(left)
            found = {row.position: row for row in await run(self._at, positions=positions)}
        happened += self._deliveries([*found.values(), *newest])
        happened += (_gone(summary(left[each]), now) for each in left.keys() - found)
        return sorted(happened, key=lambda each: each.at)

    async def _refusals(self, run: Run) -> list[Happening]:
        """Read the newest attempts that were not reported."""
        rows = await run(self._attempts, after=self._attempt - OVERLAP)
        new = [row for row in rows if row.attempt not in self._reported_attempts]
        self._attempt = max((row.attempt for row in rows), default=self._attempt)
        self._reported_attempts = {
            row.attempt for row in rows if row.attempt > self._attempt - OVERLAP
        }
        return [_refusal(row) for row in new]

    async def _read_newest(self, run: Run) -> Sequence[Any]:
        rows = await run(self._newest, after=self._position - OVERLAP)
        self._position = max((row.position for row in rows), default=self._position)
        return rows

    async def _undelivered(self, run: Run, newest: Iterable[Any]) -> dict[int, Any]:
        """Return the rows to watch. They stay rows: thousands each time, and few are reported."""
        rows = await run(self._next, partitions=self._partitions)
        pending = (row for row in newest if row.status == Status.PENDING)
        return {row.position: row for row in (*rows, *pending)}

    def _deliveries(self, rows: Iterable[Any]) -> Iterator[Happening]:
        """Return the deliveries that were not reported."""
        for row in {row.position: row for row in rows}.values():
            when = time_or_none(row.published_at)
            if when is not None and self._reported.get(row.position) != when:
                self._reported[row.position] = when
                yield _delivery(summary(row), when)
        floor = self._position - OVERLAP
        self._reported = {place: when for place, when in self._reported.items() if place > floor}


def _delivery(record: RecordSummary, at: datetime) -> Happening:
    took = None if record.created_at is None else max(timedelta(), at - record.created_at)
    return Happening(kind=ActivityKind.DELIVERED, at=at, took=took, **_about(record))


def _gone(record: RecordSummary, noticed_at: datetime) -> Happening:
    return Happening(kind=ActivityKind.GONE, at=noticed_at, **_about(record))


def _refusal(row: Any) -> Happening:
    about = {**_about(summary(row)), "attempts": row.count}
    return Happening(
        kind=ActivityKind.FAILED if row.verdict == RecordState.FAILED else ActivityKind.REFUSED,
        at=time_of(row.attempted_at),
        reason=row.reason,
        worker=row.worker,
        took=timedelta(seconds=row.seconds),
        **about,
    )


def _about(record: RecordSummary) -> dict[str, Any]:
    return {
        "position": record.position,
        "id": record.id,
        "event_type": record.event_type,
        "key": record.key,
        "attempts": record.retry_count,
    }
