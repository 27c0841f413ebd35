"""`postroom workers`: the workers, what each holds and delivers, and which are missing."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from postroom.cli import output
from postroom.cli.command import command
from postroom.cli.connecting import connected
from postroom.cli.errors import Exit
from postroom.cli.options import AsJson, Connection
from postroom.cli.output import Cell

if TYPE_CHECKING:
    from postroom.inspection import Worker

STYLES = {
    "working": "good",
    **dict.fromkeys(("paused", "draining", "drained"), "warn"),
    "missing": "bad",
    "gone": "quiet",
}

workers = typer.Typer(name="workers", invoke_without_command=True)


@workers.callback()
@command
async def list_workers(connection: Connection, json: AsJson = False) -> int:
    """List the workers: what each holds and delivers, and who has missed its heartbeats.

    [bold]Examples[/bold]
      postroom workers
      postroom workers --json | jq '.workers[] | select(.state == "missing")'
    """
    async with connected(connection) as found:
        listed = await found.inspector.workers()
    if json:
        output.print_json({"workers": listed})
    else:
        _show(listed)
    return Exit.OK


def _show(workers: "tuple[Worker, ...]") -> None:
    from postroom.inspection import short_names

    if not workers:
        output.print_line(Cell("no worker is running", "warn"))
        return
    now = max(each.last_seen for each in workers)
    columns = ["worker", "state", "seen", "partitions", "in flight", "per min", "version"]
    names = short_names(workers)
    rows = [_row(each, name) for each, name in zip(workers, names, strict=True)]
    notes = ["; ".join(_notes(each, now)) for each in workers]
    if not output.on_terminal():
        rows = [[*row, note] for row, note in zip(rows, notes, strict=True)]
        output.print_table([*columns, "notes"], rows)
        return
    output.print_table(columns, rows)  # 80 columns leave no room for the notes
    for name, note in zip(names, notes, strict=True):
        if note:
            output.print_line(Cell(name, "warn"), f": {note}")


def _row(worker: "Worker", name: str) -> list[output.Value]:
    report = worker.report
    return [
        name,
        _state(worker),
        f"{output.age(worker.last_seen)} ago",
        len(worker.partitions),
        None if report is None else report.in_flight,
        None if report is None else report.per_minute,
        None if report is None else report.version,
    ]


def _state(worker: "Worker") -> output.Value:
    name = str(worker.state)
    return Cell(name, STYLES[name]) if name in STYLES else name


def _notes(worker: "Worker", now: datetime) -> Iterator[str]:
    """Say what keeps a worker from delivering, and what it has been busy with."""
    from postroom.inspection import duration

    if not worker.is_alive:
        lease = worker.lease_until
        until = "" if lease is None else f"; others take over at {output.at(lease)}"
        yield f"missed its heartbeats since {output.at(worker.last_seen)}{until}"
    if worker.draining:
        yield "an operator has it take no records, until: postroom workers resume"
    report = worker.report
    if report is None:
        return
    for outage in filter(None, (report.publisher_outage, report.database_outage)):
        yield f"for {duration(now - outage.since)}: {outage.reason}"
    for route in report.waiting_routes:
        yield f"route {route.route} waits for {duration(now - route.since)}: {route.reason}"
    if report.oldest is not None:
        record = f"{report.oldest.event_type} {report.oldest.key or report.oldest.id}"
        yield f"{record} in flight for {duration(now - report.oldest.since)}"
    if report.active:
        yield f"stands by while {report.active} delivers: SQLite has one writer at a time"
    if report.listener == "down":
        yield "listener down: it polls"
