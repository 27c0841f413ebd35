"""`postroom list` and `postroom show`: records, and one record in full."""

import json as json_library
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from postroom.cli import output, values
from postroom.cli.command import command
from postroom.cli.connecting import connected
from postroom.cli.errors import Exit
from postroom.cli.options import AsJson, Connection
from postroom.cli.output import Cell
from postroom.cli.selection import Selection

if TYPE_CHECKING:
    from postroom.inspection import RecordDetail, RecordPage, RecordSummary

STYLES = {"failed": "bad", "parked": "warn", "paused": "warn", "published": "quiet"}


@command
async def list_records(
    connection: Connection,
    selection: Selection,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="Begin with the oldest.", rich_help_panel="Page")
    ] = False,
    limit: Annotated[
        int,
        typer.Option(
            parser=values.count, metavar="NUMBER", help="Records of a page.", rich_help_panel="Page"
        ),
    ] = 50,
    after: Annotated[
        int | None,
        typer.Option(
            parser=values.count,
            metavar="POSITION",
            help="Go on after this position, as the page before says.",
            rich_help_panel="Page",
        ),
    ] = None,
    json: AsJson = False,
) -> int:
    """List records, the newest first.

    A record's position names it in other commands, as its id does.

    [bold]Examples[/bold]
      postroom list --state failed
      postroom list --state pending --older-than 15m --oldest-first
      postroom list --type 'order.*' --key order/7
      postroom list --error 'card expired' --limit 500 --json
    """
    async with connected(connection) as found:
        page = await found.inspector.records(
            selection.filter(), cursor=after, limit=limit, newest_first=not oldest_first
        )
    if json:
        output.print_json(page)
    else:
        _show_page(page)
    return Exit.OK


@command
async def show(
    record: Annotated[
        str,
        typer.Argument(metavar="RECORD", help="Its id, the beginning of its id, or its position."),
    ],
    connection: Connection,
    json: AsJson = False,
) -> int:
    """Show one record: payload, headers, every refusal, and what it waits for.

    Fields that the outbox redacts are hidden.

    [bold]Examples[/bold]
      postroom show 1234
      postroom show 0198f2a4-7c3e
      postroom show 1234 --json | jq .payload
    """
    async with connected(connection) as found:
        detail = await found.inspector.record(record)
    if json:
        output.print_json(_document(detail))
    else:
        _show_detail(detail)
    return Exit.OK


def _show_page(page: "RecordPage") -> None:
    from postroom.inspection import key_text

    output.print_table(
        ["position", "age", "event type", "key", "state", "attempts", "error"],
        [
            [
                str(each.position),
                output.age(each.created_at),
                each.event_type,
                None if each.key is None else key_text(each.key),
                state_cell(each),
                each.retry_count,
                each.error,
            ]
            for each in page.records
        ],
        wraps="error",
    )
    if page.searched_to is not None and page.cursor is not None:
        output.print_note(f"Searched to position {page.searched_to}. Go on: --after {page.cursor}")
    elif page.cursor is not None:
        output.print_note(f"There are more: --after {page.cursor}")


def state_cell(record: "RecordSummary") -> output.Value:
    """Return the state of a record, in its colour."""
    name = str(record.state)
    return Cell(name, STYLES[name]) if name in STYLES else name


def _document(detail: "RecordDetail") -> dict[str, Any]:
    """Return a record with its details as one flat document."""
    from postroom.inspection import as_json

    document = as_json(detail)
    return {**document.pop("record"), **document}


def _show_detail(detail: "RecordDetail") -> None:
    output.print_fields(_facts(detail))
    for name, value in (("payload", detail.payload), ("headers", detail.headers)):
        if value:
            print()
            output.print_line(Cell(name, "quiet"))
            text = json_library.dumps(value, indent=2, ensure_ascii=False)
            for line in text.splitlines():
                output.print_line(line)
    if detail.attempts:
        print()
        _show_attempts(detail)


def _facts(detail: "RecordDetail") -> Iterator[tuple[str, output.Value]]:
    from postroom.inspection import key_text

    record = detail.record
    limit = "" if detail.max_retries is None else f" of {detail.max_retries}"
    yield "record", f"{record.event_type} {record.id}"
    yield "position", str(record.position)
    yield "key", None if record.key is None else key_text(record.key)
    yield "state", state_cell(record)
    yield "waits for", detail.wait.text
    if record.error:
        yield "error", Cell(record.error, "bad")
    yield "attempts", f"{record.retry_count}{limit}"
    yield "created", output.at(record.created_at)
    yield "occurred", output.at(detail.occurred_at)
    if record.published_at is not None:
        yield "delivered", output.at(record.published_at)
    yield "version", str(detail.event_version)
    yield "partition", str(detail.partition)
    if actions := _actions(record):
        yield "next", actions


def _actions(record: "RecordSummary") -> str:
    """Name the commands that change a record's state."""
    if str(record.state) == "failed":
        return f"postroom retry {record.position}, or postroom skip {record.position}"
    return ""


def _show_attempts(detail: "RecordDetail") -> None:
    from postroom.inspection import duration

    output.print_table(
        ["attempt", "when", "took", "worker", "then", "reason"],
        [
            [
                each.retry_count,
                f"{output.age(each.attempted_at)} ago",
                duration(each.duration),
                ":".join(each.worker.split(":")[:2]),
                each.verdict,
                each.reason,
            ]
            for each in detail.attempts
        ],
        wraps="reason",
    )
