"""Whether an outbox is healthy: what somebody should look at, a sentence each. Pure: no I/O."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from postroom.inspection.leases import Suspect, quarantine_text
from postroom.inspection.wording import counted, duration
from postroom.inspection.workers import Worker, WorkerState, drained_workers

PATIENCE: Final = timedelta(minutes=1)
"""How long records may be ready without a worker, and a key blocked, before that is a problem."""


def problems(
    *,
    now: datetime,
    failed: int,
    ready: int,
    oldest_ready: timedelta | None,
    blocked_keys: int,
    blocked_since: datetime | None,
    workers: Sequence[Worker],
    suspects: Sequence[Suspect] = (),
) -> Iterator[str]:
    """List what somebody should look at."""
    if failed:
        yield f"{counted(failed, 'record')} failed."
    for each in suspects:
        if each.next_try is not None:
            yield f"{quarantine_text(each, now)}."
    if blocked_since is not None and now - blocked_since >= PATIENCE:
        blocked = "1 key is" if blocked_keys == 1 else f"{blocked_keys:,} keys are"
        yield f"{blocked} blocked, the first for {duration(now - blocked_since)}."
    yield from _worker_problems(workers, now)
    no_worker = not any(each.takes_records for each in workers)
    if no_worker and ready and oldest_ready is not None and oldest_ready >= PATIENCE:
        waiting = "1 record has" if ready == 1 else f"{ready:,} records have"
        is_drained = any(each.is_alive for each in workers)
        why = drained_workers(workers) if is_drained else "no worker is running"
        yield f"{why}; {waiting} been ready for up to {duration(oldest_ready)}."


def _worker_problems(workers: Sequence[Worker], now: datetime) -> Iterator[str]:
    for each in workers:
        work = None if each.is_alive else _work_of(each)
        if work is not None:
            silent = duration(now - each.last_seen)
            yield f"worker {each.name} has missed its heartbeats for {silent}, and {work}."
    yield from dict.fromkeys(_reported(workers, now))


def _work_of(worker: Worker) -> str | None:
    """Return what a worker that has missed its heartbeats holds up, or may deliver twice."""
    if worker.partitions:
        return f"holds {counted(len(worker.partitions), 'partition')}"
    in_flight = worker.report.in_flight if worker.report is not None else 0
    if worker.state is WorkerState.GONE or not in_flight:
        return None
    return f"had {counted(in_flight, 'record')} in flight"


def _reported(workers: Iterable[Worker], now: datetime) -> Iterator[str]:
    """List what workers report: their outages, and the routes that wait."""
    for each in workers:
        if not each.is_alive or each.report is None:
            continue
        for outage in filter(None, (each.report.publisher_outage, each.report.database_outage)):
            since = duration(now - outage.since)
            yield f"worker {each.name} delivers nothing, for {since}: {_plain(outage.reason)}."
        for route in each.report.waiting_routes:
            since = duration(now - route.since)
            yield f"route {route.route} takes no records, for {since}: {_plain(route.reason)}."


def _plain(reason: str) -> str:
    return reason.strip().rstrip(".")
