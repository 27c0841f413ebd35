"""`postroom pause` and `resume`: stop and restart deliveries without stopping workers."""

from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli import output, values
from postroom.cli.command import command
from postroom.cli.connecting import connected
from postroom.cli.consent import CHANGE, Consent
from postroom.cli.errors import CommandError, Exit
from postroom.cli.options import AsJson, Connection
from postroom.cli.output import Cell
from postroom.cli.selection import WHICH

if TYPE_CHECKING:
    from postroom.inspection import Pause
    from postroom.record import Key

EventType = Annotated[
    str | None,
    typer.Option(
        "--type",
        parser=values.text,
        metavar="TYPE",
        help="Records of this event type.",
        rich_help_panel=WHICH,
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        parser=values.text,
        metavar="KEY",
        help="Records of this key: order/7",
        rich_help_panel=WHICH,
    ),
]
Reason = Annotated[
    str | None,
    typer.Option(
        parser=values.text,
        metavar="TEXT",
        help="Reason, shown to other operators.",
        rich_help_panel=CHANGE,
    ),
]


@command
async def pause(
    connection: Connection,
    consent: Consent,
    event_type: EventType = None,
    key: KeyOption = None,
    reason: Reason = None,
    json: AsJson = False,
) -> int:
    """Stop deliveries of an event type, of a key, or of the whole outbox, until resume.

    Workers go on running, and finish what is in flight. Records are captured as before. Nothing
    counts as an attempt, and order per key holds.

    [bold]Examples[/bold]
      postroom pause --type order.paid --reason 'billing is being repaired'
      postroom pause --key order/7
      postroom pause --yes
    """
    parsed, name, option = _scope(event_type, key)
    async with connected(connection, change=not consent.dry_run) as found:
        known = _matching(await found.inspector.pauses(), event_type, parsed)
        if not json:
            _preview_pause(name, option, known)
        wanted = known is None and consent.asked(f"Pause {name}?")
        if wanted:
            wanted = await found.operations.pause(event_type=event_type, key=parsed, reason=reason)
    done = f"Paused {name}." if wanted else None
    return end_change("pause", name, done, consent, json=json, is_so_already=known is not None)


@command
async def resume(
    connection: Connection,
    consent: Consent,
    event_type: EventType = None,
    key: KeyOption = None,
    json: AsJson = False,
) -> int:
    """Deliver again what `postroom pause` has stopped. Give the same --type or --key.

    [bold]Examples[/bold]
      postroom resume --type order.paid
      postroom resume --yes
    """
    parsed, name, _ = _scope(event_type, key)
    async with connected(connection, change=not consent.dry_run) as found:
        pauses = await found.inspector.pauses()
        known = _matching(pauses, event_type, parsed)
        if not json:
            _preview_resume(name, known, pauses)
        wanted = known is not None and consent.asked(f"Resume {name}?")
        if wanted:
            wanted = await found.operations.resume(event_type=event_type, key=parsed)
    done = f"Resumed {name}." if wanted else None
    return end_change("resume", name, done, consent, json=json, is_so_already=known is None)


def _scope(event_type: str | None, key: str | None) -> "tuple[Key | None, str, str]":
    """Return the key, the name of what is paused, and the option that names it."""
    from postroom.inspection import parse_key

    if event_type and key:
        raise CommandError("--type and --key: give one of them. Each is paused by itself.")
    if event_type and "*" in event_type:
        raise CommandError(f"--type {event_type}: one event type is paused at a time, without *.")
    option = f" --type {event_type}" if event_type else f" --key {key}" if key else ""
    return parse_key(key) if key else None, event_type or key or "the outbox", option


def _matching(
    pauses: "tuple[Pause, ...]", event_type: str | None, key: "Key | None"
) -> "Pause | None":
    same = (each for each in pauses if (each.event_type, each.key) == (event_type, key))
    return next(same, None)


def _preview_pause(name: str, option: str, known: "Pause | None") -> None:
    if known is not None:
        output.print_line(f"Paused already: {name}, {_since(known)}.")
        return
    output.print_line(f"To pause: {name}. What is in flight is finished; nothing is lost.")
    output.print_line(f"Order holds. To deliver again: postroom resume{option}")


def _preview_resume(name: str, known: "Pause | None", pauses: "tuple[Pause, ...]") -> None:
    if known is None:
        others = f" Paused: {', '.join(map(str, pauses))}." if pauses else ""
        output.print_line(f"Not paused: {name}.{others}")
        return
    output.print_line(f"To resume: {name}, paused {_since(known)}. Records leave in order.")


def _since(pause: "Pause") -> str:
    why = f": {pause.reason}" if pause.reason else ""
    return f"{output.age(pause.paused_at)} ago by {pause.operator} on {pause.host}{why}"


def end_change(
    action: str,
    name: str,
    done: str | None,
    consent: Consent,
    *,
    json: bool,
    is_so_already: bool,
    see: str = "postroom status",
) -> int:
    """Say what was done, and return the exit code: 1 if the answer was no."""
    if json:
        output.print_json(
            {"action": action, "target": name, "dry_run": consent.dry_run, "changed": bool(done)}
        )
    elif done:
        output.print_line(Cell(done, "good"))
        output.print_line(f"To see the effect: {see}")
    elif not is_so_already:
        output.print_line("Nothing was changed.")
    return Exit.OK if done or is_so_already or consent.dry_run else Exit.PROBLEM
