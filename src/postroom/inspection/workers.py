"""Workers and their reports."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import text

from postroom.database.database import HEARTBEAT, Run
from postroom.inspection.reading import Reader, time_of, time_or_none
from postroom.inspection.wording import counted

PRESENCE: Final = timedelta(seconds=30)
"""How long after its last report an idle worker counts as there: it reports every 10 s."""
REMEMBERED: Final = timedelta(minutes=5)
"""How long a worker that was not stopped is shown as missing, before it is gone."""
NAMED: Final = 10
"""How many drained workers a sentence names."""


class WorkerState(StrEnum):
    """The state of a worker, as the database has it."""

    WORKING = "working"
    """It holds leases."""
    IDLE = "idle"
    """It holds no lease: there is nothing for it to deliver."""
    PAUSED = "paused"
    """An operator has paused the whole outbox."""
    DRAINING = "draining"
    """An operator drains it. It holds leases: it finishes records in flight."""
    DRAINED = "drained"
    """An operator drains it. It holds no lease, and takes no records until it is resumed."""
    MISSING = "missing"
    """It has missed its heartbeats: it hangs, was killed, or cannot reach the database."""
    GONE = "gone"
    """It has missed its heartbeats for more than 5 minutes, and holds no lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedOutage:
    """An outage that a worker reports."""

    reason: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRoute:
    """A route that a worker reports as unusable: a queue is full or missing."""

    route: str
    reason: str
    since: datetime
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """The record of a worker that has been in flight for the longest time."""

    id: str
    event_type: str
    key: str | None
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a worker last reported about itself. It reports every 10 s."""

    reported_at: datetime
    version: str = ""
    publisher: str = ""
    publisher_outage: ReportedOutage | None = None
    database_outage: ReportedOutage | None = None
    waiting_routes: tuple[ReportedRoute, ...] = ()
    in_flight: int = 0
    oldest: InFlight | None = None
    delivered: int = 0
    refused: int = 0
    postponed: int = 0
    failed: int = 0
    per_minute: int = 0
    """Records delivered in the last 60 s."""
    paused: bool = False
    active: str | None = None
    """On SQLite: the worker that delivers while this one stands by."""
    listener: str = "off"
    """Whether it receives notifications of commits: `up`, `down` or `off`."""
    redact: tuple[str, ...] = ()
    """The payload fields that its outbox hides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker, and the partitions that it leases."""

    name: str
    """HOST:PID:ID."""
    host: str
    pid: int | None
    state: WorkerState
    started_at: datetime
    last_seen: datetime
    partitions: tuple[int, ...]
    """The partitions that it leases."""
    lease_until: datetime | None
    """When the first of its leases ends, unless it renews them."""
    report: Report | None
    draining: bool = False
    """Whether an operator drains it."""

    @property
    def is_alive(self) -> bool:
        """Whether it has sent its heartbeats."""
        return self.state not in (WorkerState.MISSING, WorkerState.GONE)

    @property
    def takes_records(self) -> bool:
        """Whether it is alive and not drained."""
        return self.is_alive and not self.draining


def drained_workers(workers: Sequence[Worker]) -> str:
    """Say that all workers that are alive were drained, and name them."""
    alive = [each.name for each in workers if each.is_alive]
    if len(alive) == 1:
        return f"worker {alive[0]} was drained, and no other is running"
    return f"all {len(alive)} workers were drained ({', '.join(alive[:NAMED])})"


def short_names(workers: Sequence[Worker]) -> list[str]:
    """Return HOST:PID of each worker; its whole name if two have the same."""
    short = [each.name if each.pid is None else f"{each.host}:{each.pid}" for each in workers]
    count = Counter(short)
    pairs = zip(short, workers, strict=True)
    return [name if count[name] == 1 else each.name for name, each in pairs]


def drain_effect(worker: Worker, workers: Sequence[Worker]) -> str:
    """Return a sentence about what happens if a worker is drained."""
    if not worker.is_alive:
        return "It has missed its heartbeats: if it comes back, it takes no records."
    number = sum(each.takes_records for each in workers if each.name != worker.name)
    if not number:
        return "What is in flight is finished. No other worker takes records: they wait."
    take = "takes" if number == 1 else "take"
    return f"What is in flight is finished; {counted(number, 'other worker')} {take} over."


class Workers:
    """Reads workers and leases."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        n, sql = reader.database, reader.database.sql
        self._workers = text(f"""SELECT worker, started_at, seen_until, reported_at, draining,
            {sql.text("report")} AS report FROM {n.workers} ORDER BY worker LIMIT 1000""")
        self._leases = text(f"""SELECT partition, worker, leased_until, lost_by,
                CASE WHEN leased_until > {sql.now} THEN 1 ELSE 0 END AS is_valid
            FROM {n.leases} WHERE worker IS NOT NULL OR lost_by IS NOT NULL""")

    async def read(self, run: Run) -> tuple[Worker, ...]:
        """Return every worker that is there, or was not stopped in an orderly way."""
        now = await self._reader.now(run)
        rows, found = await run(self._workers), await run(self._leases)
        held: defaultdict[str, dict[int, datetime]] = defaultdict(dict)
        for row in found:
            if row.is_valid:
                held[row.worker][row.partition] = time_of(row.leased_until)
        busy = {row.worker for row in found} | {row.lost_by for row in found}
        return tuple(_worker(row, held[row.worker], now, row.worker in busy) for row in rows)


def _worker(row: Any, leases: Mapping[int, datetime], now: datetime, is_busy: bool) -> Worker:
    """Read a worker. A busy one, or one that lost its leases, is heard of at every heartbeat."""
    seen_until, reported_at = time_of(row.seen_until), time_or_none(row.reported_at)
    report = read_report(row.report, reported_at)
    has_reported = reported_at is not None and reported_at + PRESENCE > now
    is_present = seen_until > now or (has_reported and not is_busy)
    heard_of = seen_until - 2 * timedelta(seconds=HEARTBEAT)
    last_seen = min(now, max(heard_of, reported_at or heard_of))
    host, _, rest = row.worker.partition(":")
    pid, draining = rest.partition(":")[0], bool(row.draining)
    return Worker(
        name=row.worker,
        host=host,
        pid=int(pid) if pid.isdecimal() else None,
        state=_state(
            report, leases, is_present=is_present, draining=draining, silent=now - last_seen
        ),
        started_at=time_of(row.started_at),
        last_seen=last_seen,
        partitions=tuple(sorted(leases)),
        lease_until=min(leases.values(), default=None),
        report=report,
        draining=draining,
    )


def _state(
    report: Report | None,
    leases: Mapping[int, datetime],
    *,
    is_present: bool,
    draining: bool,
    silent: timedelta,
) -> WorkerState:
    if not is_present:
        is_gone = not leases and silent > REMEMBERED
        return WorkerState.GONE if is_gone else WorkerState.MISSING
    if draining:
        return WorkerState.DRAINING if leases else WorkerState.DRAINED
    if report is not None and report.paused:
        return WorkerState.PAUSED
    return WorkerState.WORKING if leases else WorkerState.IDLE


def read_report(document: str | None, reported_at: datetime | None) -> Report | None:
    """Read a report, also one of another version of postroom: what it lacks takes its default."""
    if document is None or reported_at is None:
        return None
    said = json.loads(document)
    if not isinstance(said, dict):
        return None
    known = {name: said[name] for name in PLAIN if name in said}
    return Report(
        reported_at=reported_at,
        publisher_outage=_outage(said.get("publisher_outage"), reported_at),
        database_outage=_outage(said.get("database_outage"), reported_at),
        waiting_routes=tuple(_route(each, reported_at) for each in said.get("waiting_routes", ())),
        oldest=_in_flight(said.get("oldest"), reported_at),
        redact=tuple(said.get("redact", ())),
        **known,
    )


PLAIN: Final = (
    *("version", "publisher", "in_flight", "delivered", "refused", "postponed", "failed"),
    *("per_minute", "paused", "active", "listener"),
)
"""The fields of a report that are taken as they are."""


def _outage(said: Any, reported_at: datetime) -> ReportedOutage | None:
    if not said:
        return None
    return ReportedOutage(reason=said["reason"], since=_since(said, reported_at))


def _route(said: Any, reported_at: datetime) -> ReportedRoute:
    return ReportedRoute(
        route=said["route"],
        reason=said["reason"],
        since=_since(said, reported_at),
        records=said.get("records", 0),
    )


def _in_flight(said: Any, reported_at: datetime) -> InFlight | None:
    if not said:
        return None
    since = _since(said, reported_at)
    return InFlight(id=said["id"], event_type=said["event_type"], key=said.get("key"), since=since)


def _since(said: Mapping[str, Any], reported_at: datetime) -> datetime:
    return reported_at - timedelta(seconds=said.get("seconds") or 0)
