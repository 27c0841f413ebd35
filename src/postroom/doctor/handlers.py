"""Judges whether this program has handlers for the records in the table. Pure: no I/O."""

from collections.abc import Collection, Iterator

from postroom.doctor.finding import Finding, note, ok, problem
from postroom.errors import UnknownEventTypeError
from postroom.events.registry import EventRegistry


def judge_handlers(registry: EventRegistry, event_types: Collection[str]) -> Iterator[Finding]:
    """Judge the event types that have records which are not delivered."""
    unknown = [each for each in event_types if not _is_known(registry, each)]
    for each in unknown:
        yield problem(
            f"no class and no handler of this program is for {each}: its records wait",
            "Import the module of its handler: auto_discover_handlers(package) does that.",
        )
    if not registry.handler_classes():
        yield note("this program has no handler", "auto_discover_handlers(package)")
    elif not unknown:
        yield ok(f"every event type is known; {len(registry.handler_classes())} handlers")


def _is_known(registry: EventRegistry, event_type: str) -> bool:
    if any(registry.handler_entries(event_type)):
        return True
    try:
        registry.event_class(event_type)
    except UnknownEventTypeError:
        return False
    return True
