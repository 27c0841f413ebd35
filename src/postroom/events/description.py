"""What capture needs to know of an event, whichever kind it is."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

from postroom.errors import CaptureError, EventDefinitionError
from postroom.events.event import Event, UntypedEvent
from postroom.events.options import EventOptions, event_type_of, event_version_of
from postroom.events.payload import encode_event


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """An event in the terms of its record."""

    event_id: UUID
    event_type: str
    event_version: int
    aggregate_type: str | None
    aggregate_id: str | None
    occurred_at: datetime
    payload: Mapping[str, Any]


def describe(event: Event) -> Description:
    """Read an event's name, version, key and payload; refuse one that has no id or time."""
    event_type = event.event_type if isinstance(event, UntypedEvent) else event_type_of(type(event))
    return Description(
        event_id=_required(event, "event_id", UUID),
        event_type=event_type,
        event_version=version_of(event),
        aggregate_type=aggregate_type_of(event),
        aggregate_id=aggregate_id_of(event),
        occurred_at=_required(event, "occurred_at", datetime),
        payload=encode_event(event),
    )


def version_of(event: Event) -> int:
    """Give the version an event was made at."""
    declared = getattr(event, "event_version", None)
    return declared if isinstance(declared, int) else event_version_of(type(event))


def aggregate_type_of(event: Event) -> str | None:
    """Give the type of the aggregate an event is about, if it says so."""
    declared = EventOptions.of(type(event)).aggregate or getattr(event, "aggregate_type", None)
    return None if declared is None else str(declared)


def aggregate_id_of(event: Event) -> str | None:
    """Give the id of the aggregate an event is about, if it says so."""
    key = EventOptions.of(type(event)).key
    if key is not None and not hasattr(event, key):
        raise EventDefinitionError(
            f"{type(event).__qualname__} has no field `{key}`, which its class keyword `key` names."
        )
    return key_text(getattr(event, key or "aggregate_id", None))


def key_text(value: object) -> str | None:
    """Write an aggregate's id as text. A value object counts as the one value it holds."""
    match value:
        case None | str():
            return None if value is None else str(value)
        case Enum():
            return key_text(value.value)
        case UUID() | int():
            return str(value)
    if is_dataclass(value) and len(fields(value)) == 1:
        return key_text(getattr(value, fields(value)[0].name))
    raise CaptureError(
        f"cannot use {value!r} ({type(value).__name__}) as an aggregate's id."
        " It is a UUID, an integer, a string, or a dataclass that holds one of these."
    )


def _required(event: Event, name: str, expected: type[Any]) -> Any:
    value = getattr(event, name, None)
    if isinstance(value, expected):
        return value
    raise EventDefinitionError(
        f"{type(event).__qualname__} is not an event: its `{name}` is {value!r}, not a"
        f" {expected.__name__}. Derive it from DomainEvent (or PydanticEvent), which gives both"
        " `event_id` and `occurred_at`."
    )
