"""Takes the advice of an error: the bad event is refused with it, the good events come back."""

import json
from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any

import pytest

from postroom import (
    CaptureError,
    DomainEvent,
    Event,
    EventDefinitionError,
    EventRegistry,
    UntypedEvent,
    deserialize_event,
    serialize_event,
)
from postroom.events.codec import same
from postroom.events.delayed import undelayed
from postroom.events.description import describe
from tests.unit.events.jsonb import as_jsonb

Make = Callable[[], Event]


def held(tp: Any, value: Any) -> Make:
    """Make an event with a field of this type and value."""

    def make() -> Event:
        fields: list[Any] = [("held", tp)]
        base = (DomainEvent,)
        cls = make_dataclass("Held", fields, bases=base, frozen=True, kw_only=True)
        event: Event = cls(held=value)
        return event

    return make


def untyped(**payload: Any) -> Make:
    """Make an event without a class."""
    return lambda: UntypedEvent(event_type="thing.happened", payload=payload)


def refused(bad: Make, advice: str) -> None:
    """See that an event, or its class, is refused with this advice."""
    with pytest.raises((CaptureError, EventDefinitionError)) as caught:
        captured(bad())
    assert str(caught.value).endswith(advice)
    assert "hunter2" not in str(caught.value)


def comes_back(good: Make) -> None:
    """See that an event is captured, and comes back from the database equal."""
    event = good()
    stored = as_jsonb(json.loads(captured(event)))
    event = undelayed(event)
    if isinstance(event, UntypedEvent):
        assert same(stored, event.payload)
        return
    registry = EventRegistry()
    registry.register(type(event))
    assert same(deserialize_event(describe(event).event_type, stored, registry=registry), event)


def captured(event: Event) -> str:
    """Capture as an outbox does: the class is registered, the event described and written."""
    bare = undelayed(event)
    if not isinstance(bare, UntypedEvent):
        EventRegistry().register(type(bare))
    describe(event)
    return serialize_event(bare)
