"""The version, the id and the time in a payload: postroom's, beside the fields of the class."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar
from uuid import UUID

import pytest
from pydantic import ConfigDict

from postroom import (
    DomainEvent,
    EventRegistry,
    deserialize_event,
    serialize_event,
)
from postroom.events.codec import same
from postroom.integrations.pydantic import PydanticEvent

ID = UUID("550e8400-e29b-41d4-a716-446655440000")
MOMENT = datetime(2026, 1, 5, 12, tzinfo=UTC)
OTHER: Any = {"other": 1}


class Forbidding(PydanticEvent, name="opened", version=2, case="camel"):
    model_config = ConfigDict(extra="forbid")
    the_number: int = 1


class Allowing(PydanticEvent, name="opened"):
    model_config = ConfigDict(extra="allow")
    number: int = 1


@dataclass(frozen=True, kw_only=True)
class Opened(DomainEvent, name="opened", case="camel", rename={"event_id": "id"}):
    number: int = 1


class OpenedModel(PydanticEvent, name="opened", case="camel", rename={"event_id": "id"}):
    number: int = 1


@dataclass(frozen=True, kw_only=True)
class Attributed(DomainEvent, name="opened"):
    event_version: ClassVar[int] = 2


def read(event_class: type, payload: Any, **known: Any) -> Any:
    registry = EventRegistry()
    registry.register(event_class)
    registry.upcasts("opened", version=1)(dict)
    return deserialize_event("opened", payload, registry=registry, **known)


@pytest.mark.parametrize("event", [Forbidding(), Allowing(**OTHER), Attributed()])
def test_the_version_is_in_the_payload_and_no_field(event: Any) -> None:
    assert same(read(type(event), serialize_event(event)), event)


def test_a_model_that_forbids_extra_fields_reads_a_payload_with_a_field_that_was_removed() -> None:
    event = Forbidding()
    payload = json.loads(serialize_event(event)) | {"removed": 1}
    assert read(Forbidding, payload) == event


@pytest.mark.parametrize("event_class", [Opened, OpenedModel, Forbidding])
@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"event_id": str(UUID(int=1)), "occurred_at": "2020-01-01T00:00:00Z"},
        {"id": str(UUID(int=1)), "eventId": None, "occurredAt": "2020-01-01T00:00:00Z"},
        {"id": 5, "occurredAt": "yesterday"},
    ],
)
def test_an_event_has_the_id_and_the_time_of_its_record(event_class: type, payload: Any) -> None:
    event = read(event_class, payload, event_id=ID, occurred_at=MOMENT)
    assert (event.event_id, event.occurred_at) == (ID, MOMENT)


def test_a_time_keeps_the_offset_of_the_payload() -> None:
    local = MOMENT.astimezone(timezone(timedelta(hours=-3)))
    payload = {"occurredAt": local.isoformat()}
    event = read(Opened, payload, event_id=ID, occurred_at=MOMENT)
    assert event.occurred_at.utcoffset() == timedelta(hours=-3)
