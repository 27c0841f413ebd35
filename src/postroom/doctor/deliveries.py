"""Judges workers, leases, pauses and failed records. Pure: no I/O."""

import shlex
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from postroom.doctor.finding import Finding, note, ok, problem
from postroom.doctor.routes import route_remedy
from postroom.inspection import (
    Overview,
    Pause,
    Worker,
    WorkerState,
    counted,
    duration,
    key_text,
)
from postroom.inspection.leases import LeaseFacts, quarantine_remedy, quarantine_text
from postroom.inspection.workers import drained_workers

PATIENCE: Final = timedelta(minutes=1)
"""How long records may be ready while no worker runs, and a lease be left behind."""
PAUSE_LIMIT: Final = timedelta(hours=1)


def judge_records(overview: Overview) -> Iterator[Finding]:
    """Judge failed records and blocked keys."""
    if overview.failed:
        yield problem(
            f"{counted(overview.failed, 'record')} failed",
            "postroom failures  # then: postroom failures retry N",
        )
    if overview.blocked_keys:
        keys = "1 key is" if overview.blocked_keys == 1 else f"{overview.blocked_keys:,} keys are"
        finding = problem if overview.failed else note
        yield finding(f"{keys} blocked: later records wait for an earlier one", "postroom blocked")
    if not overview.failed and not overview.blocked_keys:
        yield ok(f"{overview.pending:,} pending, none failed, no key blocked")


def judge_workers(overview: Overview, version: str) -> Iterator[Finding]:
    """Judge who delivers. `version`: that of this command."""
    alive = [each for each in overview.workers if each.is_alive]
    taking = [each for each in alive if each.takes_records]
    if not alive:
        yield _no_worker(overview, "no worker runs", "postroom worker MODULE:RELAY")
    elif not taking:
        yield _no_worker(overview, drained_workers(alive), _undrain_command(alive[0]))
    else:
        names = ", ".join(each.name for each in taking[:10])
        yield ok(f"{counted(len(taking), 'worker')}: {names}")
    for each in overview.workers:
        yield from _worker_findings(each, overview)
    versions = {each.report.version for each in alive if each.report is not None} | {version}
    if len(versions) > 1:
        yield note(
            f"workers and this command have different versions of postroom:"
            f" {', '.join(sorted(versions))}",
            "Deploy the same version everywhere; during a release that is as it should be.",
        )


def _no_worker(overview: Overview, why: str, remedy: str) -> Finding:
    if overview.ready and (overview.oldest_ready or timedelta()) >= PATIENCE:
        waiting = "1 record is" if overview.ready == 1 else f"{overview.ready:,} records are"
        return problem(f"{why}, and {waiting} ready to be delivered", remedy)
    return note(why, remedy)


def _undrain_command(worker: Worker) -> str:
    return f"postroom workers resume {shlex.quote(worker.name)}"


def _worker_findings(worker: Worker, overview: Overview) -> Iterator[Finding]:
    silent = duration(overview.now - worker.last_seen)
    if worker.state == WorkerState.MISSING:
        yield problem(
            f"worker {worker.name} has missed its heartbeats for {silent}: it hangs, was killed,"
            " or cannot reach the database",
            f"Look at process {worker.pid} on host {worker.host}, and restart it.",
        )
    elif worker.state == WorkerState.GONE:
        yield note(
            f"worker {worker.name} ended {silent} ago without saying so (killed?); others have"
            " its work, and its row goes after a day"
        )
    elif worker.draining:
        yield note(
            f"worker {worker.name} is {worker.state}: an operator has it take no records",
            _undrain_command(worker),
        )
    elif worker.report is not None and worker.report.listener == "down":
        yield problem(
            f"worker {worker.name} cannot listen for commits, and only polls",
            "Connect it to PostgreSQL directly, or say that it polls: listen=None, --channel ''.",
        )


def judge_routes(overview: Overview) -> Iterator[Finding]:
    """Judge what workers report about where they deliver to."""
    reports = [each.report for each in overview.workers if each.is_alive and each.report]
    outages = {
        outage.reason: duration(overview.now - outage.since)
        for report in reports
        for outage in (report.publisher_outage, report.database_outage)
        if outage is not None
    }
    for reason, since in outages.items():
        yield problem(f"nothing is delivered, for {since}: {reason.rstrip('.')}")
    routes = {each.route: each for each in overview.waiting_routes}
    for each in routes.values():
        since = duration(overview.now - each.since)
        yield problem(
            f"{each.route} takes no records, for {since}: {each.reason.rstrip('.')}",
            *route_remedy(each.route, each.reason),
        )
    if reports and not outages and not routes:
        yield ok("no worker reports an outage or a route that waits")
    if not reports:
        yield ok("no worker reports")


def judge_pauses(overview: Overview) -> Iterator[Finding]:
    """Judge what operators have paused."""
    for each in overview.pauses:
        age = overview.now - each.paused_at
        by = f" by {each.operator}" if each.operator else ""
        text = f"{each} has been paused for {duration(age)}{by}"
        finding = problem if age >= PAUSE_LIMIT else note
        yield finding(f"{text}{f': {each.reason}' if each.reason else ''}", resume_command(each))
    if not overview.pauses:
        yield ok("nothing is paused")


def resume_command(pause: Pause) -> str:
    """Write the command that ends a pause."""
    if pause.key is not None:
        return f"postroom resume --key {shlex.quote(key_text(pause.key))}"
    if pause.event_type is not None:
        return f"postroom resume --type {shlex.quote(pause.event_type)}"
    return "postroom resume"


def judge_leases(leases: LeaseFacts) -> Iterator[Finding]:
    """Judge leases that were not given back, and records that may kill workers."""
    old = [each for each in leases.dead if leases.now - each.ended_at >= PATIENCE]
    for worker in dict.fromkeys(each.worker for each in old):
        mine = [each for each in old if each.worker == worker]
        since = duration(leases.now - min(each.ended_at for each in mine))
        yield note(
            f"worker {worker} left {counted(len(mine), 'lease')} behind {since} ago; the next"
            " worker takes them over when there is work",
            "postroom worker MODULE:RELAY  # if none runs",
        )
    for each in leases.suspects:
        if each.next_try is not None:
            yield problem(quarantine_text(each, leases.now), *quarantine_remedy(each))
        else:
            died = counted(each.crashes, "worker")
            yield note(f"{died} died while the record at position {each.position} was delivered")
    if not old and not leases.suspects:
        yield ok("no lease is left behind")
