"""`postroom worker` and `postroom topology`: their options."""

import gc
import logging
import os
from dataclasses import dataclass
from typing import Annotated

import typer

from postroom.cli import values
from postroom.cli.command import command
from postroom.cli.errors import BY_SIGNAL, Exit
from postroom.cli.options import (
    DEFAULT_BROKER,
    DEFAULT_EXCHANGE,
    PROCESS,
    RELAY_VARIABLE,
    BrokerUrl,
    ConfigFile,
    Exchange,
    WorkerSettings,
)

MAX_WIDTH = 10_000
COLLECTIONS = (700, 10, 10)
"""Python's own thresholds of the garbage collector."""


def print_version(value: bool) -> None:
    """Print the version, and end."""
    if value:
        from importlib.metadata import version

        print(f"postroom {version('postroom')}")
        raise typer.Exit


@command
async def worker(
    settings: WorkerSettings,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Deliver what may be sent now, and end.", rich_help_panel=PROCESS
        ),
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Wait for a database or broker that is unavailable.",
            rich_help_panel=PROCESS,
        ),
    ] = False,
) -> int:
    """Deliver the records of an outbox, until SIGTERM or Ctrl-C.

    The relay is made by your code (MODULE:RELAY), or from two URLs: --database and --broker.
    The first signal finishes what is in flight; a second one stops at once.

    [bold]Examples[/bold]
      postroom worker app.outbox:relay
      postroom worker --database postgresql://db/shop --broker amqp://mq/shop
      postroom worker app.outbox:relay --once        [dim]# for cron[/dim]

    [bold]Exit codes[/bold]
      0  it has finished, or was stopped
      1  --once: records were refused, postponed or failed; or an unexpected error
      2  an option, a setting, your module or an extra is wrong or missing
      3  the database cannot be used    4  its tables are missing or differ
      5  the broker cannot be used, or differs from the topology
      128 + n  a second signal n
    """
    from postroom.cli.worker import work

    gc.set_threshold(*COLLECTIONS)  # for a process that stays
    code = await work(settings, once=once, wait=wait)
    if code > BY_SIGNAL:  # now: not when a handler's thread comes to its end
        logging.shutdown()
        os._exit(code)
    return code


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySettings:
    """Which topology, and for which broker."""

    relay: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:TOPOLOGY",
            envvar=RELAY_VARIABLE,
            parser=values.text,
            help="A topology, or a relay whose publisher has one.",
        ),
    ] = None
    broker: BrokerUrl = DEFAULT_BROKER
    exchange: Exchange = DEFAULT_EXCHANGE
    config: ConfigFile = None
    given: frozenset[str] = frozenset()


@command
async def topology(
    settings: TopologySettings,
    queues: Annotated[
        list[str] | None,
        typer.Option(
            "--queue",
            metavar="NAME",
            help="Also a durable queue that takes every message of --exchange. May be repeated.",
        ),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Declare it on the broker.")] = False,
) -> int:
    """Print the exchanges and queues that the broker needs; with --apply, declare them.

    Existing exchanges and queues are not changed. One that differs is an error, exit code 5.
    Without MODULE:TOPOLOGY the topology is one topic exchange, --exchange, with its --queue.

    [bold]Examples[/bold]
      postroom topology app.outbox:relay
      postroom topology app.outbox:relay --apply
      postroom topology --exchange orders --queue invoices --apply
    """
    from rich.console import Console

    from postroom.cli.topology import apply_topology, topology_of, tree

    found = await topology_of(
        settings.relay,
        settings.broker,
        settings.exchange,
        queues=queues or [],
        broker_wins="broker" in settings.given,
    )
    if apply:
        await apply_topology(found)
    console = Console(highlight=False, width=MAX_WIDTH)  # else a tree is cut off at 80
    console.print(tree(found, applied=apply))
    return Exit.OK
