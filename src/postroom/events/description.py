"""What capture needs to know of an event, whichever kind it is."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any
from uuid import UUID

from postroom.errors import CaptureError, EventDefinitionError
from postroom.events.codec import Unfit, codec_for
from postroom.events.event import Event, UntypedEvent
from postroom.events.options import EventOptions, event_type_of, event_version_of, is_version
from postroom.events.payload import encode_event, explain

MAX_NAME_BYTES = 255  # AMQP's limit for a routing key, and enough for a part of a key in an index
MAX_ID_BYTES = 1024  # an index entry has at most 2,704


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
    """Read an event's name, version, key and payload; refuse what no record can hold."""
    event_type = _event_type(event)
    try:
        return Description(
            payload=encode_event(event),  # first: its complaints name a field of the event
            event_id=_required(event, "event_id", UUID),
            event_type=_text("event_type", event_type, MAX_NAME_BYTES),
            event_version=_version(event),
            aggregate_type=_text("aggregate_type", _aggregate_type(event), MAX_NAME_BYTES),
            aggregate_id=_text("aggregate_id", _aggregate_id(event), MAX_ID_BYTES),
            occurred_at=_moment(_required(event, "occurred_at", datetime)),
        )
    except Unfit as unfit:
        raise CaptureError(f"cannot capture {event_type}: {explain(unfit)}") from unfit


def key_text(value: object) -> str | None:
    """Write an aggregate's id as text. A value object counts as the one value it holds."""
    if isinstance(value, Enum):
        return key_text(value.value)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, UUID | int) and not isinstance(value, bool):
        return str(value)
    if is_dataclass(value) and len(fields(value)) == 1:
        return key_text(getattr(value, fields(value)[0].name))
    raise Unfit(
        f"is {value!r}: postroom cannot use a {type(value).__name__} as an aggregate's id",
        "Use a UUID, an integer, a string, or a dataclass that holds one of these.",
        ("aggregate_id",),
    )


def _aggregate_type(event: Event) -> Any:
    declared = EventOptions.of(type(event)).aggregate or getattr(event, "aggregate_type", None)
    return declared.value if isinstance(declared, Enum) else declared


def _aggregate_id(event: Event) -> str | None:
    key = EventOptions.of(type(event)).key
    if key is not None and not hasattr(event, key):
        raise EventDefinitionError(
            f"{type(event).__qualname__} has no field `{key}`, which its class keyword `key` names."
        )
    return key_text(getattr(event, key or "aggregate_id", None))


def _text(field: str, value: Any, limit: int) -> Any:
    """Check a name or key: text that the database holds, brokers take and indexes bear."""
    if value is None and field != "event_type":
        return None
    try:
        size = len(codec_for(str).encode(value).encode())
    except Unfit as unfit:
        raise Unfit(unfit.problem, "Give it as plain text.", (field,)) from unfit
    if size > limit or (size == 0 and field == "event_type"):
        raise Unfit(f"has {size} bytes, and may have 1 to {limit}", "Shorten it.", (field,))
    return value


def _event_type(event: Event) -> Any:
    declared = event.event_type if isinstance(event, UntypedEvent) else event_type_of(type(event))
    return declared.value if isinstance(declared, Enum) else declared


def _version(event: Event) -> int:
    if not isinstance(event, UntypedEvent):
        return event_version_of(type(event))
    if not is_version(event.event_version):
        problem = f"is {event.event_version!r}"
        raise Unfit(problem, "Versions are 1, 2, 3, …", ("event_version",))
    return event.event_version


def _moment(value: datetime) -> datetime:
    try:
        if value.utcoffset() is not None:
            value.astimezone(UTC)
            return value
    except OverflowError:  # before the year 1, or after 9999, in UTC
        pass
    problem = f"is {value}, which is no moment in UTC"
    raise Unfit(problem, "Use datetime.now(UTC).", ("occurred_at",))


def _required(event: Event, name: str, expected: type[Any]) -> Any:
    value = getattr(event, name, None)
    if isinstance(value, expected):
        return value
    raise EventDefinitionError(
        f"{type(event).__qualname__} is not an event: its `{name}` is {value!r}, not a"
        f" {expected.__name__}. Derive it from DomainEvent (or PydanticEvent), which gives both"
        " `event_id` and `occurred_at`."
    )
