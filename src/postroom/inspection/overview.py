"""The outbox in one look: counts, ages, rates, and whether it is healthy."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import text

from postroom.database.database import Run
from postroom.inspection.counts import Counts, Tally
from postroom.inspection.health import problems
from postroom.inspection.leases import read_suspects
from postroom.inspection.listing import PENDING
from postroom.inspection.pauses import Changes, Pause
from postroom.inspection.publishers import PublisherState, publisher_states
from postroom.inspection.reading import Reader, time_or_none
from postroom.inspection.records import RecordState, known_time
from postroom.inspection.workers import ReportedRoute, Worker, Workers

NEWEST: Final = 1000
"""How many of the newest records tell the rate at which records come in."""
BLOCKED: Final = 1000
"""How many blocked keys are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeCounts:
    """Counts of the undelivered records of an event type."""

    event_type: str
    pending: int
    failed: int
    oldest_pending: timedelta | None
    """The age of the oldest pending record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The state of an outbox: counts, ages, rates, workers and problems."""

    now: datetime
    """The time, by the database's clock."""
    ready: int
    waiting: int
    parked: int
    paused: int
    failed: int
    published: int
    """How many delivered records are kept: always an estimate."""
    is_exact: bool
    """Whether the other counts are exact, not estimates."""
    oldest_pending: timedelta | None
    oldest_ready: timedelta | None
    event_types: tuple[TypeCounts, ...]
    """The event types with undelivered records, the most pending first."""
    in_per_minute: float
    """How many records are saved per minute: an estimate from the newest 1,000."""
    out_per_minute: int
    """How many records the workers delivered in the last minute, by their reports."""
    blocked_keys: int
    workers: tuple[Worker, ...]
    waiting_routes: tuple[ReportedRoute, ...]
    pauses: tuple[Pause, ...]
    problems: tuple[str, ...]
    """A sentence for each problem."""

    @property
    def pending(self) -> int:
        """How many records are neither delivered nor failed."""
        return self.ready + self.waiting + self.parked + self.paused

    @property
    def publishers(self) -> tuple[PublisherState, ...]:
        """The publishers of the workers, and whether they work."""
        return publisher_states(self.workers)

    @property
    def healthy(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


class Overviews:
    """Reads the overview."""

    def __init__(self, reader: Reader, changes: Changes, workers: Workers) -> None:
        self._reader = reader
        self._changes, self._workers, self._counts = changes, workers, Counts(reader)
        n, sql = reader.database, reader.database.sql
        # How many of the newest records are of the last minute, and since when.
        created_at = f"{known_time('r.created_at')} AS created_at"
        self._newest = text(f"""SELECT count(*) AS number, min(created_at) AS first_at
            FROM (SELECT {created_at} FROM {n.records} r ORDER BY r.position DESC
                LIMIT {NEWEST}) AS newest
            WHERE created_at > {sql.after("-60")}""")
        # Blocked keys, and those of them whose blocking record was refused or has failed.
        rows = f"""(SELECT b.position, b.blocked_at FROM {n.blocked} b
            ORDER BY b.aggregate_type, b.aggregate_id LIMIT {BLOCKED}) AS b"""
        blocking = "r.position = b.position AND r.status <> 'published' LIMIT 1"
        self._blocked = text(f"""SELECT (SELECT count(*) FROM {n.blocked}) AS total,
                count(*) AS refused, min(b.blocked_at) AS since
            FROM {sql.each(rows, n.records, blocking)} WHERE w.error_message IS NOT NULL""")
        self._rows = text(f"SELECT {sql.estimate(n.records)} AS number")

    async def read(self) -> Overview:
        """Return the overview."""
        async with self._reader.ask("the overview") as run:
            now = await self._reader.now(run)
            pauses = await self._changes.pauses(run)
            tally = await self._counts.read(run, pauses)
            workers = await self._workers.read(run)
            in_per_minute = await self._in_per_minute(run, now)
            [blocked] = await run(self._blocked)
            suspects = await read_suspects(self._reader.database, run)
            [rows] = await run(self._rows)
        ready, failed = tally.number((RecordState.READY,)), tally.number((RecordState.FAILED,))
        oldest_ready = _age(tally.oldest_ready, now)
        reports = [each.report for each in workers if each.is_alive and each.report is not None]
        return Overview(
            now=now,
            ready=ready,
            waiting=tally.number((RecordState.WAITING,)),
            parked=tally.number((RecordState.PARKED,)),
            paused=tally.number((RecordState.PAUSED,)),
            failed=failed,
            published=max(0, (rows.number or 0) - sum(tally.counts.values())),
            is_exact=tally.is_exact,
            oldest_pending=_age(tally.since(PENDING), now),
            oldest_ready=oldest_ready,
            event_types=tuple(sorted(_by_type(tally, now), key=_most_pending)),
            in_per_minute=in_per_minute,
            out_per_minute=sum(report.per_minute for report in reports),
            blocked_keys=blocked.total,
            workers=workers,
            waiting_routes=tuple(each for report in reports for each in report.waiting_routes),
            pauses=pauses,
            problems=tuple(
                problems(
                    now=now,
                    failed=failed,
                    ready=ready,
                    oldest_ready=oldest_ready,
                    blocked_keys=blocked.refused,
                    blocked_since=time_or_none(blocked.since),
                    workers=workers,
                    suspects=suspects,
                )
            ),
        )

    async def _in_per_minute(self, run: Run, now: datetime) -> float:
        [row] = await run(self._newest)
        first_at = time_or_none(row.first_at)
        if row.number < NEWEST or first_at is None:  # those are all of the last minute
            return float(row.number)
        seconds = max(0.001, (now - first_at).total_seconds())
        return float(row.number * 60 / seconds)


def _by_type(tally: Tally, now: datetime) -> Iterator[TypeCounts]:
    for event_type in {event_type for event_type, _ in tally.counts}:
        yield TypeCounts(
            event_type=event_type,
            pending=tally.number(PENDING, event_type),
            failed=tally.number((RecordState.FAILED,), event_type),
            oldest_pending=_age(tally.since(PENDING, event_type), now),
        )


def _most_pending(counts: TypeCounts) -> tuple[int, int, str]:
    return -counts.pending, -counts.failed, counts.event_type


def _age(time: datetime | None, now: datetime) -> timedelta | None:
    return None if time is None else now - time
