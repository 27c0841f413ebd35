"""`postroom workers drain` and `resume`: take a worker out of service, and put it back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli import output
from postroom.cli.command import command
from postroom.cli.connecting import connected
from postroom.cli.consent import Consent
from postroom.cli.errors import CommandError, Exit
from postroom.cli.options import AsJson, Connection
from postroom.cli.pausing import end_change

if TYPE_CHECKING:
    from postroom.inspection import Worker

SEE = "postroom workers"
WorkerName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Host and process, as `postroom workers` shows them."),
]


@command
async def drain(
    name: WorkerName, connection: Connection, consent: Consent, json: AsJson = False
) -> int:
    """Have one worker finish what is in flight, and take no more records until resume.

    Other workers take over its partitions. The process goes on running, and may be stopped.

    [bold]Examples[/bold]
      postroom workers drain web1:4711
      postroom workers drain web1:4711 --dry-run
    """
    async with connected(connection, change=not consent.dry_run) as found:
        workers = await found.inspector.workers()
        worker, shown = _named(name, workers)
        if not json:
            _preview_drain(worker, shown, workers)
        wanted = not worker.draining and consent.asked(f"Drain worker {shown}?")
        if wanted:
            wanted = await found.operations.drain(worker.name)
    done = f"Worker {shown} is draining." if wanted else None
    target, is_so = f"worker {worker.name}", worker.draining
    return end_change("drain", target, done, consent, json=json, is_so_already=is_so, see=SEE)


@command
async def resume_worker(
    name: WorkerName, connection: Connection, consent: Consent, json: AsJson = False
) -> int:
    """Have a worker that was drained take its share of the records again.

    [bold]Examples[/bold]
      postroom workers resume web1:4711
    """
    async with connected(connection, change=not consent.dry_run) as found:
        worker, shown = _named(name, await found.inspector.workers())
        if not json:
            _preview_resume(worker, shown)
        wanted = worker.draining and consent.asked(f"Resume worker {shown}?")
        if wanted:
            wanted = await found.operations.undrain(worker.name)
    done = f"Worker {shown} takes records again." if wanted else None
    target, is_so = f"worker {worker.name}", not worker.draining
    return end_change("resume", target, done, consent, json=json, is_so_already=is_so, see=SEE)


def _named(name: str, workers: "Sequence[Worker]") -> "tuple[Worker, str]":
    """Return the worker with this name, whole or short, and how the list shows it."""
    from postroom.inspection import short_names

    names = short_names(workers)
    for worker, shown in zip(workers, names, strict=True):
        if name in (worker.name, shown):
            return worker, shown
    several = [each.name for each in workers if f"{each.host}:{each.pid}" == name]
    if several:
        text = f"several workers are named {name}. Give the whole name: {', '.join(several)}"
    elif names:
        text = f"no worker is named {name}. There are: {', '.join(names)}"
    else:
        text = f"no worker is named {name}: none is running."
    raise CommandError(text, Exit.PROBLEM)


def _preview_drain(worker: "Worker", shown: str, workers: "Sequence[Worker]") -> None:
    from postroom.inspection import counted, drain_effect

    if worker.draining:
        output.print_line(f"Drained already: worker {shown}. It is {worker.state}.")
        return
    held = counted(len(worker.partitions), "partition")
    output.print_line(f"To drain: worker {shown}, which is {worker.state} and holds {held}.")
    output.print_line(drain_effect(worker, workers))
    output.print_line(f"To have it deliver again: postroom workers resume {shown}")


def _preview_resume(worker: "Worker", shown: str) -> None:
    if worker.draining:
        output.print_line(f"To resume: worker {shown}. It takes its share of the records again.")
    else:
        output.print_line(f"Not drained: worker {shown}. It is {worker.state}.")
