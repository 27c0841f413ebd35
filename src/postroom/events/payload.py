"""An event as a JSON document and back, exactly or not at all."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from postroom.errors import CaptureError, EventDefinitionError, PayloadError
from postroom.events.codec import Codec, Unfit, check_nesting, codec_for
from postroom.events.envelope import VERSION, check_names, own_fields, with_version
from postroom.events.event import Event, UntypedEvent
from postroom.events.options import EventOptions, event_type_of, field_names

to_json: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode_event(event: Event) -> dict[str, Any]:
    """Turn an event into what JSON can hold, or say which field cannot be."""
    try:
        document = _untyped(event) if isinstance(event, UntypedEvent) else _typed(event)
        check_nesting(document)
    except Unfit as unfit:
        raise CaptureError(f"cannot capture {_name(event)}: {explain(unfit)}") from unfit
    return document


def decode_event(event_class: type, document: Mapping[str, Any]) -> Any:
    """Rebuild an event of this class from a document of the class's own version."""
    try:
        return event_codec(event_class).decode(own_fields(event_class, document))
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
        if strangers := set(rename) - field_names(event_class) - {VERSION}:
            problem, remedy = "is no field, and `rename` names it", "Remove it from `rename`."
            raise Unfit(problem, remedy, (min(strangers),))
        check_names(event_class)
        return codec_for(event_class, case=options.case, rename=rename)
    except Unfit as unfit:
        raise EventDefinitionError(
            f"{event_class.__qualname__} cannot be an event: {explain(unfit)}"
        ) from unfit


def _typed(event: Event) -> dict[str, Any]:
    document: dict[str, Any] = event_codec(type(event)).encode(event)
    return with_version(type(event), document)


def _untyped(event: UntypedEvent) -> dict[str, Any]:
    payload: object = event.payload
    if not isinstance(payload, Mapping):
        kind = type(payload).__name__
        raise Unfit(f"is a {kind}, not a dict", "Put it into one, under a name.", ("payload",))
    document: dict[str, Any] = codec_for(dict[str, Any]).encode(dict(payload))
    return document


def _name(event: Event) -> str:
    return event.event_type if isinstance(event, UntypedEvent) else event_type_of(type(event))


def explain(unfit: Unfit) -> str:
    """Say which field is unfit, why, and what to do."""
    subject = f"field `{unfit.where}`" if unfit.where else "it"
    return f"{subject} {unfit.problem}. {unfit.remedy or ''}".rstrip()
