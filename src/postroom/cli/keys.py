"""`postroom why` and `postroom blocked`: keys, and what their records wait for."""

from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli import output, values
from postroom.cli.command import command
from postroom.cli.connecting import connected
from postroom.cli.errors import Exit
from postroom.cli.options import AsJson, Connection
from postroom.cli.output import Cell
from postroom.cli.records import state_cell

if TYPE_CHECKING:
    from postroom.inspection import BlockedKeysPage, KeyReport


@command
async def why(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="Type and id of an aggregate: order/7.")
    ],
    connection: Connection,
    json: AsJson = False,
) -> int:
    """Say what the records of a key wait for, and what continues them.

    [bold]Examples[/bold]
      postroom why order/7
      postroom why order/7 --json
    """
    async with connected(connection) as found:
        report = await found.inspector.key(key)
    if json:
        output.print_json(report)
    else:
        _explain(report)
    return Exit.OK


@command
async def blocked(
    connection: Connection,
    limit: Annotated[
        int,
        typer.Option(
            parser=values.count, metavar="NUMBER", help="Keys of a page.", rich_help_panel="Page"
        ),
    ] = 50,
    after: Annotated[
        int | None,
        typer.Option(
            parser=values.count,
            metavar="NUMBER",
            help="Go on after so many keys, as the page before says.",
            rich_help_panel="Page",
        ),
    ] = None,
    json: AsJson = False,
) -> int:
    """List blocked keys, those with the most waiting records first.

    Records of one key are delivered in order. One that failed, or waits for its next try, blocks
    the later ones.

    [bold]Examples[/bold]
      postroom blocked
      postroom blocked --json | jq '.keys[].key'
    """
    async with connected(connection) as found:
        page = await found.inspector.blocked_keys(cursor=after, limit=limit)
    if json:
        output.print_json(page)
    else:
        _show_keys(page)
    return Exit.OK


def _explain(report: "KeyReport") -> None:
    output.print_line(str(report))
    if report.first is None or report.wait is None:
        return
    if str(report.first.state) == "failed":
        position = report.first.position
        output.print_line(
            f"To continue: postroom retry {position}, or postroom skip {position}."
            f" Details: postroom show {position}"
        )
    else:
        output.print_line(f"It waits for: {report.wait.text}")


def _show_keys(page: "BlockedKeysPage") -> None:
    from postroom.inspection import key_text

    output.print_table(
        ["key", "waiting", "blocked for", "by", "state", "next try", "error"],
        [
            [
                key_text(each.key),
                f"{each.waiting:,}{'+' if each.at_least else ''}",
                output.age(each.since),
                None if each.blocker is None else str(each.blocker.position),
                Cell("gone", "quiet") if each.blocker is None else state_cell(each.blocker),
                "-" if each.next_try is None else f"in {output.age(each.next_try)}",
                None if each.blocker is None else each.blocker.error,
            ]
            for each in page.keys
        ],
        wraps="error",
    )
    if page.cursor is not None:
        output.print_note(f"{page.total:,} keys are blocked. More: --after {page.cursor}")
    elif page.keys:
        output.print_note("For one key: postroom why KEY")
