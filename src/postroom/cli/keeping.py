"""`postroom purge` and `postroom audit`: delete delivered records; list changes by operators."""

from datetime import timedelta
from typing import Annotated

import typer

from postroom.cli import output, values
from postroom.cli.command import command
from postroom.cli.connecting import connected
from postroom.cli.consent import Consent, progress_bar
from postroom.cli.errors import Exit
from postroom.cli.options import AsJson, Connection
from postroom.cli.output import Cell
from postroom.cli.selection import WHICH


@command
async def purge(
    connection: Connection,
    consent: Consent,
    older_than: Annotated[
        timedelta,
        typer.Option(
            parser=values.duration,
            metavar="AGE",
            help="Delivered before that: 12h, 30d",
            rich_help_panel=WHICH,
        ),
    ],
    json: AsJson = False,
) -> int:
    """Delete records that were delivered longer ago than an age.

    In batches, while workers run. Workers do it by themselves: see --cleanup-days. Records that
    failed, or that wait, stay: see postroom discard.

    [bold]Examples[/bold]
      postroom purge --older-than 30d
      postroom purge --older-than 12h --dry-run
    """
    async with connected(connection, change=not consent.dry_run) as found:
        count, at_least = await found.operations.count_delivered(older_than=older_than)
        records = _counted(count, at_least=at_least)
        if not json:
            output.print_line(f"To purge: {records}, delivered more than {_age(older_than)} ago.")
        wanted = count > 0 and consent.asked(f"Delete {records}?")
        deleted = 0
        if wanted:
            with progress_bar("purge", count) as progress:
                deleted = await found.operations.purge(older_than=older_than, progress=progress)
    if json:
        output.print_json(
            {"action": "purge", "dry_run": consent.dry_run, "chosen": count, "changed": deleted}
        )
    elif wanted:
        output.print_line(Cell(f"{_counted(deleted)} deleted.", "good"))
        output.print_line("To see the effect: postroom audit")
    elif count:
        output.print_line("Nothing was changed.")
    return Exit.OK if wanted or not count or consent.dry_run else Exit.PROBLEM


@command
async def audit(
    connection: Connection,
    limit: Annotated[
        int,
        typer.Option(
            parser=values.count, metavar="NUMBER", help="Changes of a page.", rich_help_panel="Page"
        ),
    ] = 50,
    before: Annotated[
        int | None,
        typer.Option(
            parser=values.count,
            metavar="ID",
            help="Go on before this change, as the page before says.",
            rich_help_panel="Page",
        ),
    ] = None,
    json: AsJson = False,
) -> int:
    """List what operators have changed, the newest first: who, from where, when, what.

    [bold]Examples[/bold]
      postroom audit
      postroom audit --json | jq '.[0].details'
    """
    async with connected(connection) as found:
        changes = await found.inspector.audit(limit=limit, before=before)
    if json:
        output.print_json(changes)
        return Exit.OK
    if not changes:
        output.print_line("No operator has changed anything.")
        return Exit.OK
    output.print_table(
        ["id", "time", "operator", "host", "action", "records", "target"],
        [
            [
                each.id,
                output.at(each.changed_at),
                each.operator,
                each.host,
                each.action,
                each.records,
                each.target,
            ]
            for each in changes
        ],
        wraps="target",
    )
    if len(changes) == limit:
        output.print_note(f"There may be more: --before {changes[-1].id}")
    return Exit.OK


def _counted(count: int, *, at_least: bool = False) -> str:
    from postroom.inspection import counted

    return counted(count, "record", at_least=at_least)


def _age(age: timedelta) -> str:
    from postroom.inspection import duration

    return duration(age)
