"""`postroom tail`: deliveries and refusals, as they happen."""

import asyncio
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli import output, values
from postroom.cli.command import command
from postroom.cli.connecting import connected
from postroom.cli.options import AsJson, Connection
from postroom.cli.output import Cell
from postroom.cli.selection import EventType, KeyOption

if TYPE_CHECKING:
    from postroom.inspection import Happening

STYLES = {"delivered": "good", "refused": "warn", "failed": "bad", "gone": "quiet"}
MOST_LINES = 1000
"""How many lines of a poll are printed; a summary stands for the others."""


@command
async def tail(
    connection: Connection,
    event_type: EventType = None,
    key: KeyOption = None,
    failures: Annotated[
        bool,
        typer.Option("--failures", help="Only what was refused.", rich_help_panel="Which records"),
    ] = False,
    interval: Annotated[
        float,
        typer.Option(
            parser=values.seconds,
            metavar="SECONDS",
            help="Seconds between looks at the outbox.",
            rich_help_panel="Output",
        ),
    ] = 1,
    json: AsJson = False,
) -> int:
    """Print deliveries and refusals as they happen, until Ctrl-C.

    It reads a few thousand rows of the outbox each second, and locks nothing.

    [bold]Examples[/bold]
      postroom tail
      postroom tail --type 'order.*' --failures
      postroom tail --key order/7 --json
    """
    async with connected(connection) as found:
        activity = await found.inspector.activity()
        if not json:
            output.print_note(f"{found.place}: deliveries and refusals from now on. Ctrl-C ends it")
        while True:
            await asyncio.sleep(interval)
            happened = [
                each
                for each in await activity.poll()
                if _is_wanted(each, event_type, key, failures=failures)
            ]
            for each in happened[:MOST_LINES]:
                if json:
                    output.print_json(each, one_line=True)
                else:
                    _show(each)
            if len(happened) > MOST_LINES and not json:
                output.print_line(Cell(f"… and {len(happened) - MOST_LINES:,} more", "quiet"))


def _is_wanted(
    happening: "Happening", event_type: str | None, key: str | None, *, failures: bool
) -> bool:
    from postroom.inspection import parse_key

    if failures and str(happening.kind) not in ("refused", "failed"):
        return False
    if event_type is not None and not fnmatchcase(happening.event_type, event_type):
        return False
    return key is None or happening.key == parse_key(key)


def _show(happening: "Happening") -> None:
    from postroom.inspection import key_text

    kind = str(happening.kind)
    key = "-" if happening.key is None else key_text(happening.key)
    output.print_line(
        Cell(f"{happening.at:%H:%M:%S}  ", "quiet"),
        Cell(f"{kind:9}  ", STYLES[kind]),
        f"{happening.position:>8}  {happening.event_type:20}  {key:16}  {_note(happening)}",
    )


def _note(happening: "Happening") -> str:
    from postroom.inspection import duration

    took = "" if happening.took is None else duration(happening.took)
    match str(happening.kind):
        case "delivered":
            return f"after {took}" if took else ""
        case "gone":
            return "delivered and not kept, or discarded"
    return f"attempt {happening.attempts}, {took}: {happening.reason}"
