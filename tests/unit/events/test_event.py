"""Events: what they are given, and what counts as one."""

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from postroom import DomainEvent, Event, UntypedEvent
from postroom.events.description import describe
from postroom.identity import uuid7


@dataclass(frozen=True, kw_only=True)
class LampLit(DomainEvent):
    lamp: str


@dataclass(frozen=True)
class PlainEvent:
    """Derives from nothing: an event all the same."""

    event_id: UUID
    occurred_at: datetime


def test_an_event_is_given_an_id_and_the_time() -> None:
    before = datetime.now(UTC)
    event = LampLit(lamp="hall")
    assert event.event_id.version == 7
    assert event.event_id != LampLit(lamp="hall").event_id
    assert before <= event.occurred_at <= datetime.now(UTC)
    assert event.occurred_at.utcoffset() == timedelta(0)


def test_the_id_and_the_time_can_be_told() -> None:
    event_id, moment = uuid7(), datetime(2026, 1, 5, tzinfo=UTC)
    event = LampLit(lamp="hall", event_id=event_id, occurred_at=moment)
    assert (event.event_id, event.occurred_at) == (event_id, moment)
    assert event == LampLit(lamp="hall", event_id=event_id, occurred_at=moment)


def test_an_event_cannot_be_changed() -> None:
    event = LampLit(lamp="hall")
    with pytest.raises(FrozenInstanceError):
        event.lamp = "cellar"  # type: ignore[misc]
    assert replace(event, lamp="cellar").event_id == event.event_id


@pytest.mark.requirement("C1")
def test_an_event_needs_no_class_of_its_own() -> None:
    before = datetime.now(UTC)
    event = UntypedEvent(
        event_type="group_message.created",
        aggregate_type="group_message",
        aggregate_id=7,
        payload={"id": "7"},
    )
    assert isinstance(event, Event)
    assert before <= event.occurred_at <= datetime.now(UTC)
    described = describe(event)
    assert described.event_id == event.event_id
    assert described.event_type == "group_message.created"
    assert (described.aggregate_type, described.aggregate_id) == ("group_message", "7")
    assert described.payload == {"id": "7"}
    assert described.event_version == 1
    assert described.occurred_at == event.occurred_at
    assert describe(replace(event, event_version=3)).event_version == 3


def test_a_dataclass_with_an_id_and_a_time_is_an_event() -> None:
    event: Event = PlainEvent(uuid7(), datetime(2026, 1, 5, tzinfo=UTC))  # mypy proves it
    assert isinstance(event, Event)
    assert not isinstance({"event_id": 1}, Event)
    described = describe(event)
    assert (described.event_id, described.event_type) == (event.event_id, "PlainEvent")
    assert described.payload == {
        "event_id": str(event.event_id),
        "occurred_at": "2026-01-05T00:00:00Z",
    }


@pytest.mark.requirement("C1")
def test_an_untyped_event_s_payload_may_be_any_mapping() -> None:
    class Frozen(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            return {"a": 1}[key]

        def __iter__(self) -> Any:
            return iter(["a"])

        def __len__(self) -> int:
            return 1

    assert describe(UntypedEvent(event_type="x", payload=Frozen())).payload == {"a": 1}
