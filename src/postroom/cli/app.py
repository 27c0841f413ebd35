"""The application: its commands, in the order and the groups of `postroom --help`."""

from typing import Annotated, Final

import typer

from postroom.cli import events, keys, records, run, status, tail
from postroom.cli.changes import discard, replay, retry, skip
from postroom.cli.console import console
from postroom.cli.doctor import doctor
from postroom.cli.draining import drain, resume_worker
from postroom.cli.failures import failures
from postroom.cli.keeping import audit, purge
from postroom.cli.pausing import pause, resume
from postroom.cli.reporting import Commands, Invocation
from postroom.cli.schema import schema
from postroom.cli.workers import workers

LOOK: Final = "See what waits, and why"
CHANGE: Final = "Change what waits"
RUN: Final = "Deliver"
CHECK: Final = "Find what is wrong"

app = typer.Typer(
    cls=Commands,
    name="postroom",
    help="The transactional outbox: what you commit gets delivered.",
    epilog=(
        "The outbox is named by --database or DATABASE_URL, by --relay, or in"
        r" \[tool.postroom] of pyproject.toml. For one command: postroom COMMAND --help"
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=run.print_version, help="Print the version."
        ),
    ] = False,
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only",
            envvar="POSTROOM_READ_ONLY",
            help="Refuse every command that changes something.",
        ),
    ] = False,
) -> None:
    """Keep what is said before the command's name, for the command."""
    invocation = context.ensure_object(Invocation)
    invocation.read_only = read_only


app.command("status", rich_help_panel=LOOK)(status.status)
app.command("list", rich_help_panel=LOOK)(records.list_records)
app.command("show", rich_help_panel=LOOK)(records.show)
app.command("why", rich_help_panel=LOOK)(keys.why)
app.add_typer(failures, rich_help_panel=LOOK)
app.command("blocked", rich_help_panel=LOOK)(keys.blocked)
app.add_typer(workers, rich_help_panel=LOOK)
workers.command("drain")(drain)
workers.command("resume")(resume_worker)
app.command("events", rich_help_panel=LOOK)(events.events)
app.command("tail", rich_help_panel=LOOK)(tail.tail)
app.command("console", rich_help_panel=LOOK)(console)
app.command("doctor", rich_help_panel=CHECK)(doctor)
app.add_typer(schema, rich_help_panel=CHECK)
app.command("audit", rich_help_panel=LOOK)(audit)
app.command("retry", rich_help_panel=CHANGE)(retry)
app.command("skip", rich_help_panel=CHANGE)(skip)
app.command("discard", rich_help_panel=CHANGE)(discard)
app.command("pause", rich_help_panel=CHANGE)(pause)
app.command("resume", rich_help_panel=CHANGE)(resume)
app.command("replay", rich_help_panel=CHANGE)(replay)
app.command("purge", rich_help_panel=CHANGE)(purge)
app.command("worker", rich_help_panel=RUN)(run.worker)
app.command("topology", rich_help_panel=RUN)(run.topology)
