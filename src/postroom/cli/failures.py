"""`postroom failures`: failed records in groups of one event type and one kind of error."""

from typing import TYPE_CHECKING

import typer

from postroom.cli import output
from postroom.cli.command import command
from postroom.cli.connecting import connected
from postroom.cli.errors import Exit
from postroom.cli.options import AsJson, Connection
from postroom.cli.output import Cell

if TYPE_CHECKING:
    from postroom.inspection import Failures

failures = typer.Typer(name="failures", invoke_without_command=True)


@failures.callback()
@command
async def list_failures(connection: Connection, json: AsJson = False) -> int:
    """List failed records in groups of one event type and one kind of error.

    The largest group has number 1. Numbers, ids and times in errors make no group of their own.

    [bold]Examples[/bold]
      postroom failures
      postroom failures --json | jq '.groups[0].error'
    """
    async with connected(connection) as found:
        groups = await found.inspector.failures()
    if json:
        output.print_json(groups)
    else:
        _show(groups)
    return Exit.OK


def _show(found: "Failures") -> None:
    from postroom.inspection import counted

    if not found.groups:
        output.print_line(Cell("no record has failed", "good"))
        return
    output.print_table(
        ["group", "records", "event type", "last", "example", "error"],
        [
            [
                each.number,
                each.count,
                each.event_type,
                f"{output.age(each.last_failed_at)} ago",
                str(each.example),
                Cell(each.example_error if each.count == 1 else each.error, "bad"),
            ]
            for each in found.groups
        ],
        wraps="error",
    )
    total = counted(found.total, "record", at_least=found.at_least)
    groups = counted(len(found.groups), "group")
    example = found.groups[0].example
    output.print_note(f"{total} in {groups}. One record: postroom show {example}")
