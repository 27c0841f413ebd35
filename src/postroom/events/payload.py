"""An event as a JSON document, and back: exactly, or not at all."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from postroom.errors import CaptureError, EventDefinitionError, PayloadError
from postroom.events.codec import Codec, Unfit, codec_for, json_name
from postroom.events.event import Event, UntypedEvent
from postroom.events.options import EventOptions, event_type_of, event_version_of, field_names

_VERSION: Final = "event_version"
to_json: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode_event(event: Event) -> dict[str, Any]:
    """Turn an event into what JSON can hold, or say which field cannot be."""
    try:
        return _untyped(event) if isinstance(event, UntypedEvent) else _typed(event)
    except Unfit as unfit:
        raise CaptureError(f"cannot capture {_name(event)}: {explain(unfit)}") from unfit


def decode_event(event_class: type, document: Mapping[str, Any]) -> Any:
    """Rebuild an event of this class from a document of the class's own version."""
    try:
        return event_codec(event_class).decode(document)
    except Unfit as unfit:
        raise PayloadError(
            f"the payload does not fit {event_type_of(event_class)}: {explain(unfit)}"
        ) from unfit


@cache
def event_codec(event_class: type) -> Codec:
    """Give the codec of an event class, or refuse the class."""
    options = EventOptions.of(event_class)
    rename = options.rename or {}
    try:
        if strangers := set(rename) - field_names(event_class) - {_VERSION}:
            raise Unfit("is no field, and `rename` names it", "", (min(strangers),))
        return codec_for(event_class, case=options.case, rename=rename)
    except Unfit as unfit:
        raise EventDefinitionError(
            f"{event_class.__qualname__} cannot be an event: {explain(unfit)}"
        ) from unfit


def stored_version(event_class: type, document: Mapping[str, Any]) -> Any:
    """Read the version a document says it has. One that says nothing is of version 1."""
    return document.get(_version_name(event_class), 1)


def with_version(event_class: type, document: Mapping[str, Any]) -> dict[str, Any]:
    """Write the class's own version into a document."""
    return {**document, _version_name(event_class): event_version_of(event_class)}


def _typed(event: Event) -> dict[str, Any]:
    event_class = type(event)
    document: dict[str, Any] = event_codec(event_class).encode(event)
    name, version = _version_name(event_class), event_version_of(event_class)
    if version > 1:
        document.setdefault(name, version)
    if document.get(name, 1) != version:
        problem = f"is {document[name]!r}, and the class is of version {version}"
        raise Unfit(problem, "Leave it to its default.", (_VERSION,))
    return document


def _untyped(event: UntypedEvent) -> dict[str, Any]:
    payload: object = event.payload
    if not isinstance(payload, Mapping):
        kind = type(payload).__name__
        raise Unfit(f"is a {kind}, not a dict", "Put it into one, under a name.", ("payload",))
    document: dict[str, Any] = codec_for(dict[str, Any]).encode(dict(payload))
    return document


def _name(event: Event) -> str:
    return event.event_type if isinstance(event, UntypedEvent) else event_type_of(type(event))


@cache
def _version_name(event_class: type) -> str:
    options = EventOptions.of(event_class)
    return (options.rename or {}).get(_VERSION) or json_name(_VERSION, options.case)


def explain(unfit: Unfit) -> str:
    """Say which field is unfit, why, and what to do."""
    subject = f"field `{unfit.where}`" if unfit.where else "it"
    return f"{subject} {unfit.problem}. {unfit.remedy or ''}".rstrip()
