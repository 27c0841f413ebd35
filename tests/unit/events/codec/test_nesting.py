"""One limit of nesting, checked at capture, so that the relay never meets what it cannot read."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import MetaData
from sqlalchemy.orm import Session

from postroom import (
    CaptureError,
    DomainEvent,
    Event,
    EventBus,
    EventRegistry,
    Outbox,
    OutboxRecord,
    PayloadError,
    UntypedEvent,
    deserialize_event,
    serialize_event,
)
from postroom.events.codec import same
from postroom.integrations.pydantic import PydanticEvent
from tests.unit.events.builders import lists

LEVELS = 64


class NestingRecord(OutboxRecord):
    pass


@dataclass(frozen=True)
class Node:
    child: "Node | None" = None


@dataclass(frozen=True, kw_only=True)
class TypedDeep(DomainEvent):
    child: Node | None


@dataclass(frozen=True, kw_only=True)
class AnyDeep(DomainEvent, version=2):
    rest: Any


class Model(PydanticEvent):
    rest: Any = None


class RecursiveModel(PydanticEvent):
    child: "RecursiveModel | None" = None


headers: dict[str, Any] = {}
outbox = Outbox(
    MetaData(),
    record=NestingRecord,
    table="nested",
    events=EventRegistry(),
    headers=lambda: headers,
)


def nested(make: Callable[[Any], Any], levels: int) -> Any:
    value = None
    for _ in range(levels):
        value = make(value)
    return value


def untyped(payload: dict[str, Any]) -> UntypedEvent:
    return UntypedEvent(event_type="thing.happened", payload=payload)


MAKERS: dict[str, Callable[[int], Event]] = {
    "typed": lambda levels: TypedDeep(child=nested(Node, levels - 1)),
    "any": lambda levels: AnyDeep(rest=lists(levels - 1)),
    "pydantic": lambda levels: Model(rest=lists(levels - 1)),
    "recursive pydantic": lambda levels: nested(lambda child: RecursiveModel(child=child), levels),
    "untyped": lambda levels: untyped({"rest": lists(levels - 1)}),
    "untyped objects": lambda levels: untyped(nested(lambda rest: {"rest": rest}, levels)),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_an_event_may_have_64_levels(make: Callable[[int], Event]) -> None:
    event = make(LEVELS)
    text = serialize_event(event)
    if not isinstance(event, UntypedEvent):
        registry = EventRegistry()
        registry.register(type(event))
        back = deserialize_event(type(event).__name__, text, registry=registry)
        assert same(back, event)


@pytest.mark.parametrize("levels", [65, 140, 190, 240])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_an_event_of_more_levels_is_refused_at_capture(
    make: Callable[[int], Event], levels: int
) -> None:
    with pytest.raises(CaptureError, match=r"field `(child|rest)\b.*(64 levels|too deeply)"):
        serialize_event(make(levels))


def test_headers_and_context_have_the_same_limit() -> None:
    session, bus = Session(), EventBus()
    bus.emit(untyped({}))
    headers["deep"] = lists(LEVELS - 1)
    outbox.middleware().flush_sync(session, bus, context=lists(LEVELS - 1))
    with pytest.raises(CaptureError, match=r"context: field `deep`.*64 levels"):
        outbox.middleware().flush_sync(session, bus, deep=lists(LEVELS))
    headers["deep"] = lists(LEVELS)
    with pytest.raises(CaptureError, match=r"headers: field `deep`.*64 levels"):
        outbox.dispatcher(session).dispatch_sync([untyped({})])


def read_by(registry: EventRegistry, payload: Any, version: int) -> Any:
    """Give what is nested in an event; None for an event that is refused clearly."""
    try:
        event = deserialize_event(
            "AnyDeep",
            payload,
            version=version,
            event_id=UUID(int=1),
            occurred_at=datetime.now(UTC),
            registry=registry,
        )
    except PayloadError:
        return None
    return event.rest


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("levels", [100, 240, 400, 100_000])
def test_an_old_row_of_more_levels_is_read_or_fails_clearly(levels: int, version: int) -> None:
    registry = EventRegistry()
    registry.register(AnyDeep)
    registry.upcasts(AnyDeep, version=1)(dict)
    text = '{"rest":' + "[" * levels + "1" + "]" * levels + "}"
    rest = read_by(registry, text, version)
    assert rest == lists(levels) if levels == 100 else rest in (None, lists(levels))
    assert read_by(registry, {"rest": lists(900)}, version) is None
