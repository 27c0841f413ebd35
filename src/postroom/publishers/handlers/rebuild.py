"""Makes the event of a record again, and finds its handlers."""

from collections.abc import Mapping
from typing import Any

from postroom.errors import EventDefinitionError, PayloadError, UnknownEventTypeError
from postroom.events.event import UntypedEvent
from postroom.events.registry import EventRegistry, HandlerEntry
from postroom.events.serialization import deserialize_event
from postroom.publishers.handlers.handling import Call
from postroom.record import ClaimedRecord


def calls_for(record: ClaimedRecord, registry: EventRegistry) -> list[Call]:
    """Give the handlers of a record, each with an event of its own.

    None for a class without a handler. The registry has to know the type and version. Raises
    PayloadError for a payload that does not fit.
    """
    untyped = registry.handler_entries(record.event_type)
    calls = [Call(entry, _untyped(record)) for entry in untyped]
    typed = _typed_entries(record, registry)
    calls += [Call(entry, _typed(record, registry)) for entry in typed]
    return _distinct(calls, record)


def _typed_entries(record: ClaimedRecord, registry: EventRegistry) -> list[HandlerEntry]:
    try:
        event_class = registry.event_class(record.event_type)
    except UnknownEventTypeError:  # it has handlers by its name only
        return []
    return list(registry.handler_entries(event_class))


def _typed(record: ClaimedRecord, registry: EventRegistry) -> Any:
    return deserialize_event(
        record.event_type,
        record.payload_json,
        version=record.event_version,
        event_id=record.id,
        occurred_at=record.occurred_at,
        registry=registry,
    )


def _untyped(record: ClaimedRecord) -> UntypedEvent:
    return UntypedEvent(
        event_type=record.event_type,
        event_version=record.event_version,
        aggregate_type=record.aggregate_type,
        aggregate_id=record.aggregate_id,
        payload=_document(record),
        event_id=record.id,
        occurred_at=record.occurred_at,
    )


def _document(record: ClaimedRecord) -> Mapping[str, Any]:
    try:
        document = record.payload
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"the payload of {record.event_type} is not JSON: {error}") from error
    if isinstance(document, Mapping):
        return document
    kind = type(document).__name__
    raise PayloadError(f"the payload of {record.event_type} is a {kind}, not a JSON object")


def _distinct(calls: list[Call], record: ClaimedRecord) -> list[Call]:
    """Give each handler once, although it may handle both the class and its name."""
    by_name = {call.name: call for call in calls}
    for call in calls:
        if by_name[call.name].entry.handler is not call.entry.handler:
            raise EventDefinitionError(
                f"two handlers of {record.event_type} are called {call.name!r}. One would pass for"
                " the other: give it another name=…."
            )
    return list(by_name.values())
