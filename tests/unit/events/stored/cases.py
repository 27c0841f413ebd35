"""What a stored row is: the event that was written, and the event that it has to give."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from postroom import Event, EventRegistry, UntypedEvent

MOMENT = datetime(2026, 11, 17, 12, 30, 0, 250_000, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An event under the name of its row; `expected` where today's class has changed since."""

    name: str
    written: Event
    expected: Event
    registry: EventRegistry


def case(
    name: str, written: Event, expected: Event | None = None, registry: EventRegistry | None = None
) -> Case:
    """Give the case of an event that is read by its own class, unless told otherwise."""
    registry = registry or EventRegistry()
    expected = expected or written
    if not isinstance(expected, UntypedEvent):
        registry.register(type(expected))
    return Case(name=name, written=written, expected=expected, registry=registry)


def stamp(name: str) -> dict[str, Any]:
    """Give the id and the time of the event of this name."""
    return {"event_id": event_id(name), "occurred_at": MOMENT}


def event_id(name: str) -> UUID:
    """Give the id that the event of this name has in every run."""
    return uuid5(NAMESPACE_URL, name)
