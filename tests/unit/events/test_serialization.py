"""Events as JSON text and back, old payloads included."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from postroom import (
    DomainEvent,
    EventRegistry,
    PayloadError,
    UnknownEventTypeError,
    UntypedEvent,
    deserialize_event,
    serialize_event,
)
from postroom.events.codec import same
from postroom.events.description import describe
from postroom.events.event import Event

EVENT_ID = UUID("550e8400-e29b-41d4-a716-446655440000")
ACCOUNT_ID = UUID("123e4567-e89b-12d3-a456-426614174000")
MOMENT = datetime(2026, 1, 5, tzinfo=UTC)


class AccountRole(Enum):
    USER = "user"
    ADMIN = "admin"


@dataclass(frozen=True, kw_only=True)
class AccountCreated(DomainEvent, aggregate="account", key="account_id"):
    account_id: UUID
    email: str
    role: AccountRole


@dataclass(frozen=True)
class Id:
    value: UUID


@dataclass(frozen=True)
class Text:
    value: str


@dataclass(frozen=True, kw_only=True)
class FamilyEvent(
    DomainEvent, naming="qualified", case="camel", rename={"occurred_at": "occurredOn"}
):
    event_version: int = 1


@dataclass(frozen=True, kw_only=True)
class FamilyMemberInvitedEvent(FamilyEvent, key="invitation_id"):
    invitation_id: Id
    family_id: Id
    email: Text
    role: Text
    token: Text
    expires_at: datetime
    invited_by_user_id: Id
    is_resend: bool


CREATED = AccountCreated(
    account_id=ACCOUNT_ID,
    email="a@b.com",
    role=AccountRole.USER,
    event_id=EVENT_ID,
    occurred_at=MOMENT,
)
INVITED = FamilyMemberInvitedEvent(
    event_id=EVENT_ID,
    occurred_at=MOMENT,
    invitation_id=Id(ACCOUNT_ID),
    family_id=Id(UUID("789e4567-e89b-12d3-a456-426614174000")),
    email=Text("john@example.com"),
    role=Text("Member"),
    token=Text("abc123"),
    expires_at=datetime(2026, 1, 19, tzinfo=UTC),
    invited_by_user_id=Id(UUID("456e4567-e89b-12d3-a456-426614174000")),
    is_resend=False,
)


def registry_of(*classes: type) -> EventRegistry:
    registry = EventRegistry()
    for event_class in classes:
        registry.register(event_class)
    return registry


def read(event: Event, payload: str | bytes | dict[str, Any]) -> Any:
    name = describe(event).event_type
    return deserialize_event(name, payload, registry=registry_of(type(event)))


@pytest.mark.requirement("A6")
def test_every_field_is_in_the_json_and_ids_times_and_enums_are_strings() -> None:
    assert serialize_event(CREATED) == (
        '{"event_id":"550e8400-e29b-41d4-a716-446655440000",'
        '"occurred_at":"2026-01-05T00:00:00Z",'
        '"account_id":"123e4567-e89b-12d3-a456-426614174000",'
        '"email":"a@b.com",'
        '"role":"user"}'
    )


@pytest.mark.requirement("A6")
def test_an_untyped_event_s_json_is_its_payload() -> None:
    event = UntypedEvent(event_type="x", payload={"name": "Ünï 💌", "list": [1, None, 2.5, True]})
    assert serialize_event(event) == '{"name":"Ünï 💌","list":[1,null,2.5,true]}'


@pytest.mark.requirement("A7")
@pytest.mark.parametrize("form", [str, str.encode, json.loads])
def test_a_payload_may_be_text_bytes_or_a_document(form: Any) -> None:
    assert same(read(CREATED, form(serialize_event(CREATED))), CREATED)


@pytest.mark.requirement("A8")
def test_an_unknown_event_type_is_a_value_error() -> None:
    with pytest.raises(UnknownEventTypeError) as caught:
        deserialize_event("UnknownEvent", "{}", registry=registry_of(AccountCreated))
    assert (caught.value.event_type, caught.value.known) == ("UnknownEvent", ("AccountCreated",))


@pytest.mark.requirement("D11")
def test_the_payload_is_camel_case_with_value_objects() -> None:
    payload = json.loads(serialize_event(INVITED))
    assert payload == {
        "eventId": "550e8400-e29b-41d4-a716-446655440000",
        "occurredOn": "2026-01-05T00:00:00Z",
        "eventVersion": 1,
        "invitationId": {"value": "123e4567-e89b-12d3-a456-426614174000"},
        "familyId": {"value": "789e4567-e89b-12d3-a456-426614174000"},
        "email": {"value": "john@example.com"},
        "role": {"value": "Member"},
        "token": {"value": "abc123"},
        "expiresAt": "2026-01-19T00:00:00Z",
        "invitedByUserId": {"value": "456e4567-e89b-12d3-a456-426614174000"},
        "isResend": False,
    }
    assert list(payload)[:4] == ["eventId", "occurredOn", "eventVersion", "invitationId"]


@pytest.mark.requirement("D11", "A7")
def test_the_camel_case_payload_comes_back_as_the_event() -> None:
    assert same(read(INVITED, serialize_event(INVITED)), INVITED)


@pytest.mark.requirement("D4", "D11")
def test_the_event_says_its_full_name_version_and_aggregate() -> None:
    described = describe(INVITED)
    assert described.event_type == f"{__name__}.FamilyMemberInvitedEvent"
    assert described.event_version == 1
    assert described.aggregate_id == str(ACCOUNT_ID)


def test_a_version_as_a_field_counts_as_the_class_s_version() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Second(FamilyEvent):
        event_version: int = 2

    event = Second()
    assert describe(event).event_version == 2
    assert json.loads(serialize_event(event))["eventVersion"] == 2
    assert read(event, serialize_event(event)) == event


def test_a_field_that_was_removed_is_ignored() -> None:
    old = json.loads(serialize_event(CREATED)) | {"nickname": "Ann", "tags": [1, {"a": None}]}
    assert read(CREATED, old) == CREATED


def test_a_field_that_was_added_takes_its_default() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Grown(DomainEvent):
        email: str
        balance: Decimal = Decimal("0.00")
        tags: tuple[str, ...] = ()

    old = {"event_id": str(EVENT_ID), "occurred_at": "2026-01-05T00:00:00Z", "email": "a@b.com"}
    event = Grown(event_id=EVENT_ID, occurred_at=MOMENT, email="a@b.com")
    assert same(read(event, old), event)


def test_a_field_that_was_added_without_a_default_is_named() -> None:
    old = json.loads(serialize_event(CREATED))
    del old["email"]
    advice = r"Give the field a default, or write an upcaster\.$"
    with pytest.raises(PayloadError, match=rf"AccountCreated.*`email`.*missing.*{advice}"):
        read(CREATED, old)


@pytest.mark.parametrize(
    ("field", "stored"),
    [
        ("account_id", "not-a-uuid"),
        ("account_id", 5),
        ("role", "USER"),
        ("role", None),
        ("occurred_at", "yesterday"),
        ("email", 5),
    ],
)
def test_a_value_that_does_not_fit_is_named(field: str, stored: Any) -> None:
    old = json.loads(serialize_event(CREATED)) | {field: stored}
    advice = r"Correct the payload, or write an upcaster if an older version wrote it\.$"
    with pytest.raises(PayloadError, match=rf"does not fit AccountCreated.*`{field}`.*{advice}"):
        read(CREATED, old)


def test_an_event_id_that_the_payload_lacks_has_to_be_given() -> None:
    """As after a change of `case`: each call would make a new id, and a new time."""
    old = {"event_id": str(EVENT_ID), "occurred_at": "2026-01-05T00:00:00Z"}

    class Moved(DomainEvent, case="camel"):
        pass

    registry = registry_of(Moved)
    advice = r"Pass event_id=… and occurred_at=…"
    with pytest.raises(PayloadError, match=rf"of Moved has no `eventId`.*{advice}"):
        deserialize_event("Moved", old, registry=registry)
    with pytest.raises(PayloadError, match=rf"of Moved has no `occurredAt`.*{advice}"):
        deserialize_event("Moved", old, event_id=EVENT_ID, registry=registry)
    given: dict[str, Any] = {"event_id": EVENT_ID, "occurred_at": MOMENT, "registry": registry}
    assert deserialize_event("Moved", old, **given) == Moved(event_id=EVENT_ID, occurred_at=MOMENT)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *((each, "is not JSON") for each in ("", "{", b"\xff\xfe\xff", "{'a': 1}", "nul")),
        *((each, "is a .*, not a JSON object") for each in ("[]", "5", "null", '"text"')),
    ],
)
def test_what_is_no_json_object_is_refused(text: str | bytes, problem: str) -> None:
    error = rf"payload of AccountCreated {problem}.*Correct the payload\.$"
    with pytest.raises(PayloadError, match=error):
        read(CREATED, text)
