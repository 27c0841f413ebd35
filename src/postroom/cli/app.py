"""The commands, and what they take."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from postroom.cli.errors import BY_SIGNAL, CommandError, Exit
from postroom.cli.logs import set_up_logging
from postroom.cli.settings import SETTINGS, WorkerSettings
from postroom.cli.topology import apply_topology, topology_of, tree
from postroom.cli.worker import work
from postroom.errors import error_text, traceable

MAX_WIDTH = 10_000

app = typer.Typer(
    help="The transactional outbox: what you commit gets delivered.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def flag(name: str, text: str) -> Any:
    """Describe a flag, with what else sets it."""
    setting = SETTINGS[name]
    default = "" if setting.default is None else f" [dim]default: {setting.default}[/dim]"
    return typer.Option(
        f"--{name.replace('_', '-')}",
        help=f"{text} [dim]{setting.variable}[/dim]{default}",
        show_default=False,
    )


RelayArgument = Annotated[
    str | None,
    typer.Argument(metavar="MODULE:RELAY", help="A relay, or a function that makes one."),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="A file of settings, instead of ./postroom.toml.")
]


@app.callback()
def _commands() -> None:
    """Have commands, however few there are."""


@app.command()
def worker(
    relay: RelayArgument = None,
    database: Annotated[str | None, flag("database", "URL of the outbox's database.")] = None,
    broker: Annotated[
        str | None, flag("broker", "URL of RabbitMQ, of one host or several.")
    ] = None,
    exchange: Annotated[str | None, flag("exchange", "Exchange to publish to.")] = None,
    table: Annotated[str | None, flag("table", "Table of the records.")] = None,
    schema: Annotated[str | None, flag("schema", "Schema of that table.")] = None,
    poll_interval: Annotated[float | None, flag("poll_interval", "Seconds between polls.")] = None,
    batch_size: Annotated[int | None, flag("batch_size", "Records to claim at a time.")] = None,
    max_retries: Annotated[
        int | None, flag("max_retries", "Refusals that fail a record without a limit of its own.")
    ] = None,
    cleanup_days: Annotated[
        float | None, flag("cleanup_days", "Days to keep what is delivered.")
    ] = None,
    channel: Annotated[
        str | None, flag("channel", "Channel to LISTEN on; '' only polls, behind PgBouncer.")
    ] = None,
    cloud_events: Annotated[
        str | None, flag("cloud_events", "Make messages CloudEvents too, with this source.")
    ] = None,
    health_port: Annotated[
        int | None, flag("health_port", "Answer /live and /ready by HTTP on this port.")
    ] = None,
    health_host: Annotated[str | None, flag("health_host", "Address to answer on.")] = None,
    log_format: Annotated[str | None, flag("log_format", "Write logs as text or json.")] = None,
    log_level: Annotated[str | None, flag("log_level", "Write logs from this level on.")] = None,
    config: ConfigOption = None,
    once: Annotated[
        bool, typer.Option("--once", help="Deliver what may leave now, and end.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for a database or broker that is away.")
    ] = False,
) -> None:
    """Deliver the records of an outbox, until a signal says stop.

    Of a relay that a module makes, or from URLs: --database and --broker.
    Settings come from flags, then the environment, then postroom.toml.
    SIGTERM or SIGINT finishes what is in flight; a second one stops at once.

    Exit codes: 0 as told, 1 an unexpected error, 2 usage, settings or
    a missing extra, 3 database, 4 its tables, 5 broker or topology,
    128 + n a second signal n.
    """
    flags = {name: value for name, value in locals().items() if name in (*SETTINGS, "relay")}

    async def run() -> int:
        settings = WorkerSettings.gather(flags, config, os.environ)
        settings.refuse_unused(flags)
        set_up_logging(settings.log_format, settings.log_level)
        code = await work(settings, once=once, wait=wait)
        if code > BY_SIGNAL:  # now: not when a handler's thread comes to its end
            logging.shutdown()
            os._exit(code)
        return code

    _end("worker", run)


@app.command()
def topology(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:TOPOLOGY", help="A topology, or a relay whose publisher has one."
        ),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Declare it on the broker.")] = False,
    broker: Annotated[str | None, flag("broker", "URL of RabbitMQ, for --apply.")] = None,
    exchange: Annotated[
        str | None, flag("exchange", "Without MODULE:TOPOLOGY: just this topic exchange.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Print what has to be on the broker; with --apply, put it there.

    What is there already stays as it is; what is there otherwise is an error, exit code 5.
    """

    async def run() -> int:
        flags = {"relay": target, "broker": broker, "exchange": exchange}
        settings = WorkerSettings.gather(flags, config, os.environ)
        found = await topology_of(settings, settings.relay, broker)
        if apply:
            await apply_topology(found)
        console = Console(highlight=False, width=MAX_WIDTH)  # else a tree is cut off at 80
        console.print(tree(found, applied=apply))
        return Exit.OK

    _end("topology", run)


def _end(command: str, run: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    """Run a command to its end, and the process with it."""
    try:
        code = asyncio.run(run())
    except CommandError as error:
        print(f"postroom {command}: {error}", file=sys.stderr)
        code = error.code
    except Exception as error:
        message = "postroom: %s failed: %s"
        logger = logging.getLogger("postroom")
        logger.critical(message, command, error_text(error), exc_info=traceable(error))
        code = Exit.BUG
    raise typer.Exit(code)
