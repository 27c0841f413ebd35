"""`postroom status`: the outbox in one screen."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from postroom.cli import output, values
from postroom.cli.command import command
from postroom.cli.connecting import connected
from postroom.cli.errors import Exit
from postroom.cli.options import AsJson, Connection
from postroom.cli.output import Cell

if TYPE_CHECKING:
    from postroom.inspection import Overview

CLEAR = "\x1b[H\x1b[2J\x1b[3J"
TYPES_SHOWN = 15


@command
async def status(
    connection: Connection,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh until Ctrl-C.", rich_help_panel="Output")
    ] = False,
    interval: Annotated[
        float,
        typer.Option(
            parser=values.seconds,
            metavar="SECONDS",
            help="With --watch: seconds between refreshes.",
            rich_help_panel="Output",
        ),
    ] = 2,
    json: AsJson = False,
) -> int:
    """Show the outbox in one screen: what waits, what failed, who delivers.

    The exit code is 0 if the outbox is healthy and 1 if somebody should look at it.

    [bold]Examples[/bold]
      postroom status --database postgresql://app@db/shop
      postroom status --watch
      postroom status >/dev/null || mail -s 'outbox' ops    [dim]# in cron[/dim]
      postroom status --json | jq .failed
    """
    async with connected(connection) as found:
        inspector = found.inspector
        while True:
            overview = await inspector.overview()
            if watch and output.on_terminal() and not json:
                print(CLEAR, end="")
            _show(overview, found.place, as_json=json, one_line=watch)
            if not watch:
                return Exit.OK if overview.healthy else Exit.PROBLEM
            await asyncio.sleep(interval)


def _show(overview: "Overview", place: str, *, as_json: bool, one_line: bool) -> None:
    if as_json:
        output.print_json(document(overview, place), one_line=one_line)
        return
    output.print_fields(_summary(overview, place))
    if overview.event_types:
        print()
        _show_types(overview)
    print()
    _show_problems(overview)


def document(overview: "Overview", place: str) -> dict[str, Any]:
    """Return an overview as a document for JSON."""
    from postroom.inspection import as_json

    about = {"outbox": place, "healthy": overview.healthy, "pending": overview.pending}
    return {**about, **as_json(overview)}


def _summary(overview: "Overview", place: str) -> Iterator[tuple[str, output.Value]]:
    about = "" if overview.is_exact else "about "
    yield "outbox", place
    yield "pending", f"{about}{overview.pending:,}{_details(overview)}"
    yield "failed", Cell(f"{about}{overview.failed:,}", "bad" if overview.failed else "quiet")
    yield "blocked", _blocked(overview)
    yield "per minute", f"{overview.in_per_minute:,.0f} in, {overview.out_per_minute:,} out"
    yield "delivered", f"about {overview.published:,} kept"
    yield "workers", _workers(overview)
    yield "publisher", _publisher(overview)
    for pause in overview.pauses:
        yield "paused", Cell(_pause(pause), "warn")


def _details(overview: "Overview") -> str:
    from postroom.inspection import duration

    if not overview.pending:
        return ""
    oldest = overview.oldest_pending
    parts = {
        "ready": overview.ready,
        "waiting for their time": overview.waiting,
        "behind another record of their key": overview.parked,
        "paused": overview.paused,
    }
    details = ", ".join(f"{number:,} {name}" for name, number in parts.items() if number)
    return f" (oldest {duration(oldest)}): {details}" if oldest is not None else f": {details}"


def _blocked(overview: "Overview") -> Cell:
    from postroom.inspection import counted

    style = "warn" if overview.blocked_keys else "quiet"
    return Cell(counted(overview.blocked_keys, "key"), style)


def _workers(overview: "Overview") -> Cell:
    alive = [each for each in overview.workers if each.is_alive]
    if not overview.workers:
        return Cell("none", "warn" if overview.pending else "quiet")
    states = [str(each.state) for each in overview.workers]
    counts = ", ".join(f"{states.count(each)} {each}" for each in dict.fromkeys(states))
    taking = sum(each.takes_records for each in overview.workers)
    style = "good" if taking == len(states) else "warn" if len(alive) == len(states) else "bad"
    return Cell(f"{len(alive)} ({counts})", style)


def _publisher(overview: "Overview") -> Cell:
    """Say what the workers report about where they deliver to."""
    states = overview.publishers
    if not states:
        return Cell("unknown: no worker reports about it", "quiet")
    style = "good" if all(each.is_ok for each in states) else "bad"
    return Cell("; ".join(map(str, states)), style)


def _pause(pause: Any) -> str:
    by = f" by {pause.operator}" if pause.operator else ""
    reason = f": {pause.reason}" if pause.reason else ""
    return f"{pause}, since {output.at(pause.paused_at)}{by}{reason}"


def _show_types(overview: "Overview") -> None:
    from postroom.inspection import duration

    shown = overview.event_types[:TYPES_SHOWN]
    output.print_table(
        ["event type", "pending", "oldest", "failed"],
        [
            [
                each.event_type,
                each.pending,
                None if each.oldest_pending is None else duration(each.oldest_pending),
                Cell(f"{each.failed:,}", "bad") if each.failed else 0,
            ]
            for each in shown
        ],
    )
    if len(overview.event_types) > len(shown):
        output.print_line(f"{len(overview.event_types) - len(shown)} more event types")


def _show_problems(overview: "Overview") -> None:
    if overview.healthy:
        output.print_line(Cell("healthy", "good"))
        return
    for each in overview.problems:
        output.print_line(Cell("problem  ", "bad"), each[:1].upper(), each[1:])
    output.print_line(Cell("see      ", "quiet"), ", ".join(_commands(overview)))


def _commands(overview: "Overview") -> Iterator[str]:
    """Name the commands that say more about the problems."""
    if overview.failed:
        yield "postroom failures"
    if overview.blocked_keys:
        yield "postroom blocked"
    has_others = len(overview.problems) > bool(overview.failed) + bool(overview.blocked_keys)
    if has_others:
        yield "postroom workers"
    if has_others or overview.waiting_routes:
        yield "postroom doctor"
