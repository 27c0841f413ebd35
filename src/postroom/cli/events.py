"""`postroom events`: event types, with their versions, handlers and JSON Schema."""

import json as json_library
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli import output
from postroom.cli.command import command
from postroom.cli.connecting import connected
from postroom.cli.errors import CommandError, Exit
from postroom.cli.options import AsJson, Connection

if TYPE_CHECKING:
    from postroom.inspection import EventType

NO_CODE = "Classes and handlers are known with your code only: --relay app.outbox:relay"


@command
async def events(
    connection: Connection,
    event_type: Annotated[
        str | None, typer.Argument(metavar="[TYPE]", help="Show this one, with its JSON Schema.")
    ] = None,
    json: AsJson = False,
) -> int:
    """List event types: versions, classes and handlers, and which the outbox holds.

    Types come from your code (--relay) and from the records. Versions in brackets are old ones that
    an upcaster reads.

    [bold]Examples[/bold]
      postroom events --relay app.outbox:relay
      postroom events OrderPaid --relay app.outbox:relay
      postroom events OrderPaid --json | jq '.event_types[0].schema'
    """
    async with connected(connection) as found:
        known = await found.inspector.event_types()
    shown = [each for each in known if event_type in (None, each.name)]
    if event_type is not None and not shown:
        raise CommandError(f"no event type is called {event_type!r}.", Exit.PROBLEM)
    if json:
        output.print_json({"event_types": shown})
    elif event_type is not None:
        _show_one(shown[0])
    else:
        _show_all(shown, has_code=found.relay is not None)
    return Exit.OK


def _show_all(event_types: "Sequence[EventType]", *, has_code: bool) -> None:
    output.print_table(
        ["event type", "version", "in the outbox", "class", "handlers"],
        [
            [
                each.name,
                _versions(each),
                "yes" if each.is_seen else "no",
                each.event_class,
                ", ".join(each.handlers),
            ]
            for each in event_types
        ],
        wraps="handlers",
    )
    if not has_code:
        output.print_note(NO_CODE)


def _show_one(event_type: "EventType") -> None:
    output.print_fields(_facts(event_type))
    if event_type.schema is not None:
        print()
        print(json_library.dumps(event_type.schema, indent=2))


def _facts(event_type: "EventType") -> Iterator[tuple[str, output.Value]]:
    yield "event type", event_type.name
    yield "version", _versions(event_type)
    yield "in the outbox", "yes" if event_type.is_seen else "no"
    yield "class", event_type.event_class
    yield "handlers", ", ".join(event_type.handlers)


def _versions(event_type: "EventType") -> str | None:
    if event_type.version is None:
        return None
    old = ", ".join(map(str, event_type.upcast_versions))
    return f"{event_type.version} ({old})" if old else str(event_type.version)
