"""What capture needs to know of an event: type, version, key, payload."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from postroom.errors import CaptureError, EventDefinitionError
from postroom.events.codec import Unfit, codec_for
from postroom.events.delayed import Delayed, undelayed
from postroom.events.event import Event, UntypedEvent
from postroom.events.options import EventOptions, event_type_of, event_version_of, is_version
from postroom.events.payload import encode_event, explain

MAX_NAME_BYTES = 255  # AMQP's limit for a routing key
# The two halves of a key have to fit into one entry of an index.
MAX_TYPE_BYTES = 128
MAX_ID_BYTES = 512
NOTHING = object()
_plain_text = codec_for(str).encode


class Description(NamedTuple):
    """An event in the terms of its record."""

    event_id: UUID
    event_type: str
    event_version: int
    aggregate_type: str | None
    aggregate_id: str | None
    occurred_at: datetime
    payload: Mapping[str, Any]
    due_at: datetime | None = None


class Kind(NamedTuple):
    """What the events of one class have in common."""

    event_type: str
    event_version: int
    aggregate_type: str | None
    key: str


def describe(event: Event) -> Description:
    """Read an event's name, version, key and payload; refuse what no record can hold."""
    if isinstance(event, Delayed):
        return _delayed(describe(undelayed(event)), event.until)
    try:
        payload = encode_event(event)  # first: its errors name a field of the event
        kind = _own_kind(event) if isinstance(event, UntypedEvent) else _kind(type(event))
        return Description(
            event_id=_required(event, "event_id", UUID),
            event_type=kind.event_type,
            event_version=kind.event_version,
            aggregate_type=kind.aggregate_type or type_text(_attribute(event, "aggregate_type")),
            aggregate_id=_aggregate_id(event, kind.key),
            occurred_at=_moment("occurred_at", _required(event, "occurred_at", datetime)),
            payload=payload,
        )
    except Unfit as unfit:
        name = getattr(event, "event_type", None) or event_type_of(type(event))
        raise CaptureError(f"cannot capture {name}: {explain(unfit)}") from unfit


def check_event(event: Any) -> None:
    """Refuse what is no event: it has no id, or no time."""
    _required(event, "event_id", UUID)
    _required(event, "occurred_at", datetime)


def event_list(events: Iterable[Event]) -> Iterable[Event]:
    """Refuse one event that is given instead of a list, and what is no list at all."""
    if isinstance(events, list | tuple):
        return events  # the usual case; to ask a protocol takes long
    if isinstance(events, Event) or not isinstance(events, Iterable):
        kind = type(events).__name__
        raise CaptureError(f"cannot capture a {kind} instead of a list of events. Give [event].")
    return events


def type_text(value: object) -> str | None:
    """Write an aggregate's type as text that a record can hold."""
    return _text("aggregate_type", value, MAX_TYPE_BYTES)


def id_text(value: object) -> str | None:
    """Write an aggregate's id as text that a record can hold."""
    return _text("aggregate_id", key_text(value), MAX_ID_BYTES)


def key_text(value: object) -> str | None:
    """Write an aggregate's id as text. A value object counts as the one value it holds."""
    if isinstance(value, Enum):
        return key_text(value.value)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (UUID, int)) and not isinstance(value, bool):
        return str(value)
    if is_dataclass(value) and len(fields(value)) == 1:
        return key_text(getattr(value, fields(value)[0].name))
    raise Unfit(
        f"is {value!r}: postroom cannot use a {type(value).__name__} as an aggregate's id",
        "Use a UUID, an integer, a string, or a dataclass that holds one of these.",
        ("aggregate_id",),
    )


@cache
def _kind(event_class: type) -> Kind:
    options = EventOptions.of(event_class)
    return Kind(
        event_type=_name(event_type_of(event_class)),
        event_version=event_version_of(event_class),
        aggregate_type=type_text(options.aggregate),
        key=options.key or "aggregate_id",
    )


def _own_kind(event: UntypedEvent) -> Kind:
    if not is_version(event.event_version):
        problem = f"is {event.event_version!r}"
        raise Unfit(problem, "Versions are 1, 2, 3, …", ("event_version",))
    return Kind(_name(event.event_type), event.event_version, None, "aggregate_id")


def _aggregate_id(event: Event, key: str) -> str | None:
    value = _attribute(event, key, NOTHING)
    if value is NOTHING and key != "aggregate_id":
        raise EventDefinitionError(
            f"{type(event).__qualname__} has no field `{key}`, which its class keyword `key` names."
            " Name a field or a property."
        )
    return None if value is NOTHING else id_text(value)


def _attribute(event: object, name: str, default: object = None) -> Any:
    """Return an attribute. The AttributeError of a property's own code is raised."""
    try:
        return getattr(event, name)
    except AttributeError:
        if hasattr(type(event), name):
            raise
        return default


def _name(event_type: Any) -> str:
    return _text("event_type", event_type or "", MAX_NAME_BYTES, shortest=1) or ""


def _text(field: str, value: Any, longest: int, shortest: int = 0) -> str | None:
    """Check a name or key: text that the database holds, brokers take and indexes bear."""
    if value is None:
        return None
    try:
        text: str = _plain_text(value.value if isinstance(value, Enum) else value)
    except Unfit as unfit:
        raise Unfit(unfit.problem, "Give it as plain text.", (field,)) from unfit
    size = len(text.encode())
    if not shortest <= size <= longest:
        problem = f"has {size} bytes, and may have {shortest} to {longest}"
        raise Unfit(problem, "Shorten it." if size else "Give it a name.", (field,))
    return text


def _delayed(description: Description, until: datetime) -> Description:
    try:
        return description._replace(due_at=_moment("until", until))
    except Unfit as unfit:
        name = description.event_type
        raise CaptureError(f"cannot capture {name}: {explain(unfit)}") from unfit


def _moment(field: str, value: Any) -> datetime:
    try:
        if isinstance(value, datetime) and value.utcoffset() is not None:
            value.astimezone(UTC)
            return value
    except OverflowError:  # before the year 1, or after 9999, in UTC
        pass
    problem = f"is {value}, which is no moment in UTC"
    raise Unfit(problem, "Use an aware datetime, such as datetime.now(UTC).", (field,))


def _required(event: Event, name: str, expected: type[Any]) -> Any:
    value = getattr(event, name, None)
    if isinstance(value, expected):
        return value
    value = _attribute(event, name)
    raise EventDefinitionError(
        f"{type(event).__qualname__} is not an event: its `{name}` is {value!r}, not a"
        f" {expected.__name__}. Derive it from DomainEvent (or PydanticEvent), which gives both"
        " `event_id` and `occurred_at`."
    )
