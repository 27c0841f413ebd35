"""`serialize_event` and `deserialize_event`: events as JSON text, of any version."""

import json
from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any
from uuid import UUID

from postroom.errors import PayloadError
from postroom.events.envelope import stored_version, with_identity
from postroom.events.event import Event
from postroom.events.payload import decode_event, encode_event, to_json
from postroom.events.registry import EventRegistry, default_registry


def serialize_event(event: Event) -> str:
    """Return an event as JSON text, with all its fields, and its version if that is above 1.

    Raises CaptureError if a field cannot be JSON.
    """
    return to_json(encode_event(event))


def deserialize_event(
    event_type: str,
    payload: str | bytes | Mapping[str, Any],
    *,
    version: int | None = None,
    event_id: UUID | None = None,
    occurred_at: datetime | None = None,
    registry: EventRegistry = default_registry,
) -> Any:
    """Rebuild an event from its payload; upcasters first bring an old payload up to date.

    Raises UnknownEventTypeError, and PayloadError if the payload does not fit the class.

    - `version`: of the payload; by default the version in the payload, or else 1
    - `event_id`, `occurred_at`: those of the record; they win over those in the payload, and are
      needed if it has none
    - `registry`: where the class and its upcasters are registered; the default one if not given
    """
    event_class = registry.event_class(event_type)
    document = _document(event_type, payload)
    written_at = stored_version(event_class, document) if version is None else version
    current = registry.upcast(event_class, document, written_at)
    return decode_event(event_class, with_identity(event_class, current, event_id, occurred_at))


def _document(event_type: str, payload: str | bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    """Read a payload. Upcasters may change what this returns."""
    try:
        document = json.loads(payload) if isinstance(payload, str | bytes) else deepcopy(payload)
    except (ValueError, RecursionError) as error:
        raise PayloadError(
            f"the payload of {event_type} is not JSON: {error}. Correct the payload."
        ) from error
    if not isinstance(document, Mapping):
        raise PayloadError(
            f"the payload of {event_type} is a {type(document).__name__}, not a JSON object."
            " Correct the payload."
        )
    return document
