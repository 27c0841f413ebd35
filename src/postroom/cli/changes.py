"""`postroom retry`, `skip`, `discard` and `replay`: what an operator decides about records."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from postroom.cli import output
from postroom.cli.choosing import choose
from postroom.cli.command import command
from postroom.cli.connecting import Connected, connected
from postroom.cli.consent import Consent, progress_bar
from postroom.cli.errors import Exit
from postroom.cli.failures import failures
from postroom.cli.options import AsJson, Connection
from postroom.cli.output import Cell
from postroom.cli.selection import WHICH, Selection

if TYPE_CHECKING:
    from postroom.actions import Action, Chosen

SEE: Final = {
    "retry": "postroom status",
    "skip": "postroom blocked",
    "discard": "postroom status",
    "replay": "postroom list --state pending",
}
"""The command that shows the effect of an action."""

Records = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RECORD]...", help="Their ids, the beginnings of their ids, or their positions."
    ),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group", metavar="N", help="Of this group of `postroom failures`.", rich_help_panel=WHICH
    ),
]
GroupArgument = Annotated[
    str, typer.Argument(metavar="N", help="Number or id of a group, as `postroom failures` says.")
]


@command
async def retry(
    connection: Connection,
    selection: Selection,
    consent: Consent,
    records: Records = None,
    group: GroupOption = None,
    json: AsJson = False,
) -> int:
    """Try failed records again now, with a retry count of 0.

    A filter chooses failed records, unless --state waiting is given. Order per key holds.

    [bold]Examples[/bold]
      postroom retry 1234
      postroom retry --group 1
      postroom retry --type 'order.*' --error 'card expired' --yes
    """
    return await _change("retry", connection, selection, consent, records, group, json)


@command
async def skip(
    connection: Connection,
    selection: Selection,
    consent: Consent,
    records: Records = None,
    group: GroupOption = None,
    json: AsJson = False,
) -> int:
    """Leave failed records failed, and deliver the later ones of their keys.

    [bold]Examples[/bold]
      postroom skip 1234
      postroom skip --key order/7
    """
    return await _change("skip", connection, selection, consent, records, group, json)


@command
async def discard(
    connection: Connection,
    selection: Selection,
    consent: Consent,
    records: Records = None,
    group: GroupOption = None,
    json: AsJson = False,
) -> int:
    """Delete records that are not delivered, and deliver the later ones of their keys.

    A filter chooses failed records, unless --state is given.

    [bold]Examples[/bold]
      postroom discard 1234 1235
      postroom discard --group 2 --dry-run
      postroom discard --state pending --type test.pinged
    """
    return await _change("discard", connection, selection, consent, records, group, json)


@command
async def replay(
    connection: Connection,
    selection: Selection,
    consent: Consent,
    records: Records = None,
    json: AsJson = False,
) -> int:
    """Deliver published records again, marked by the header postroom-replay.

    [bold]Examples[/bold]
      postroom replay 1234
      postroom replay --type order.paid --since 2026-01-31T12:00
    """
    return await _change("replay", connection, selection, consent, records, None, json)


@failures.command("retry")
@command
async def retry_group(
    group: GroupArgument, connection: Connection, consent: Consent, json: AsJson = False
) -> int:
    """Try the records of a group again now: the same as postroom retry --group N.

    [bold]Examples[/bold]
      postroom failures retry 1
      postroom failures retry 1 --dry-run
    """
    return await _change("retry", connection, Selection(), consent, None, group, json)


@failures.command("discard")
@command
async def discard_group(
    group: GroupArgument, connection: Connection, consent: Consent, json: AsJson = False
) -> int:
    """Delete the records of a group: the same as postroom discard --group N.

    [bold]Examples[/bold]
      postroom failures discard 2
      postroom failures discard 2 --dry-run
    """
    return await _change("discard", connection, Selection(), consent, None, group, json)


async def _change(
    verb: str,
    connection: Connection,
    selection: Selection,
    consent: Consent,
    records: list[str] | None,
    group: str | None,
    json: bool,
) -> int:
    """Show what would be changed, ask, change it, and say what was done."""
    from postroom.actions import ACTIONS

    action = ACTIONS[verb]
    async with connected(connection, change=not consent.dry_run) as found:
        chosen = await choose(found.inspector, action, records or (), selection, group)
        if not json:
            _preview(action, chosen)
        wanted = bool(chosen.ids) and consent.asked(f"{action.verb.capitalize()} {chosen}?")
        changed = await _apply(action, found, chosen) if wanted else 0
    if json:
        output.print_json(_document(action, chosen, changed, consent))
    elif wanted:
        output.print_line(Cell(f"{action.done} {_records(changed)}.", "good"))
        output.print_line(f"To see the effect: {SEE[verb]}")
    elif chosen.ids:
        output.print_line("Nothing was changed.")
    is_refused = bool(chosen.ids) and not wanted and not consent.dry_run
    return Exit.PROBLEM if is_refused else Exit.OK


def _preview(action: "Action", chosen: "Chosen") -> None:
    if not chosen.ids:
        output.print_line(f"No record to {action.verb}.")
        return
    output.print_line(f"To {action.verb}: {chosen}.")
    output.print_line(action.order)


async def _apply(action: "Action", found: Connected, chosen: "Chosen") -> int:
    change = action.of(found.operations)
    with progress_bar(action.verb, len(chosen.ids)) as progress:
        return await change(chosen.ids, chosen_by=chosen.chosen_by, progress=progress)


def _records(count: int) -> str:
    from postroom.inspection import counted

    return counted(count, "record")


def _document(
    action: "Action", chosen: "Chosen", changed: int, consent: Consent
) -> dict[str, object]:
    return {
        "action": action.verb,
        "dry_run": consent.dry_run,
        "chosen": len(chosen.ids),
        "changed": changed,
        "types": dict(chosen.types),
        "keys": len(chosen.keys),
        "waiting_behind": chosen.waiting_behind,
    }
