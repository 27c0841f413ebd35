"""Events as JSON text and back, old payloads included."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom import (
    CaptureError,
    DomainEvent,
    EventDefinitionError,
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
class InvitationId:
    value: UUID


@dataclass(frozen=True)
class FamilyId:
    value: UUID


@dataclass(frozen=True)
class UserId:
    value: UUID


@dataclass(frozen=True)
class Email:
    value: str


@dataclass(frozen=True)
class FamilyRole:
    value: str


@dataclass(frozen=True)
class InvitationToken:
    value: str


@dataclass(frozen=True, kw_only=True)
class FamilyEvent(
    DomainEvent, naming="qualified", case="camel", rename={"occurred_at": "occurredOn"}
):
    event_version: int = 1


@dataclass(frozen=True, kw_only=True)
class FamilyMemberInvitedEvent(FamilyEvent, key="invitation_id"):
    invitation_id: InvitationId
    family_id: FamilyId
    email: Email
    role: FamilyRole
    token: InvitationToken
    expires_at: datetime
    invited_by_user_id: UserId
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
    invitation_id=InvitationId(ACCOUNT_ID),
    family_id=FamilyId(UUID("789e4567-e89b-12d3-a456-426614174000")),
    email=Email("john@example.com"),
    role=FamilyRole("Member"),
    token=InvitationToken("abc123"),
    expires_at=datetime(2026, 1, 19, tzinfo=UTC),
    invited_by_user_id=UserId(UUID("456e4567-e89b-12d3-a456-426614174000")),
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
    event = UntypedEvent(event_type="x", payload={"id": "7", "list": [1, None, 2.5, True]})
    assert serialize_event(event) == '{"id":"7","list":[1,null,2.5,true]}'


@pytest.mark.requirement("A6")
def test_text_beyond_ascii_is_written_as_it_is() -> None:
    event = UntypedEvent(event_type="x", payload={"name": "Ünï 💌"})
    assert serialize_event(event) == '{"name":"Ünï 💌"}'


@pytest.mark.requirement("A7")
def test_an_event_comes_back_equal_and_of_the_same_types() -> None:
    back = read(CREATED, serialize_event(CREATED))
    assert back == CREATED
    assert same(back, CREATED)
    assert type(back.account_id) is UUID
    assert back.role is AccountRole.USER


@pytest.mark.requirement("A7")
@pytest.mark.parametrize("form", [str, str.encode, json.loads])
def test_a_payload_may_be_text_bytes_or_a_document(form: Any) -> None:
    assert read(CREATED, form(serialize_event(CREATED))) == CREATED


@pytest.mark.requirement("A7")
@given(
    email=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    role=st.sampled_from(AccountRole),
    account_id=st.uuids(),
    event_id=st.uuids(),
    occurred_at=st.datetimes(timezones=st.timezones()),
)
def test_any_event_comes_back(**values: Any) -> None:
    event = AccountCreated(**values)
    back = read(event, serialize_event(event))
    assert same(back, event)
    assert back.occurred_at.utcoffset() == event.occurred_at.utcoffset()


@pytest.mark.requirement("A8")
def test_an_unknown_event_type_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"'UnknownEvent'.*Known: AccountCreated") as caught:
        deserialize_event("UnknownEvent", "{}", registry=registry_of(AccountCreated))
    assert isinstance(caught.value, UnknownEventTypeError)


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


def test_a_version_as_a_keyword_and_as_a_field_cannot_differ() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Torn(FamilyEvent, version=2):
        pass

    with pytest.raises(EventDefinitionError, match=r"Torn.*event_version.*1.*2"):
        registry_of(Torn)


def test_an_event_cannot_say_that_it_has_another_version_than_its_class() -> None:
    with pytest.raises(CaptureError, match=r"FamilyEvent.*`event_version`.*7"):
        serialize_event(FamilyEvent(event_version=7))


def test_a_version_that_is_not_a_number_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Worded(DomainEvent):
        event_version: str = "1.0"

    with pytest.raises(EventDefinitionError, match=r"Worded.*event_version"):
        registry_of(Worded)


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
    with pytest.raises(PayloadError, match=r"AccountCreated.*`email`.*missing.*upcaster"):
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
    with pytest.raises(PayloadError, match=rf"does not fit AccountCreated.*`{field}`"):
        read(CREATED, old)


@pytest.mark.parametrize("text", ["", "{", b"\xff\xfe\xff", "{'a': 1}", "nul"])
def test_what_is_not_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(PayloadError, match="payload of AccountCreated is not JSON"):
        read(CREATED, text)


@pytest.mark.parametrize("text", ["[]", "5", "null", '"text"'])
def test_what_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(PayloadError, match=r"payload of AccountCreated is a .*, not a JSON object"):
        read(CREATED, text)


def test_what_is_nested_without_end_is_refused() -> None:
    with pytest.raises(PayloadError, match="AccountCreated"):
        read(CREATED, '{"email":' + "[" * 100_000 + "]" * 100_000 + "}")


@pytest.mark.parametrize("zone", [timezone(timedelta(hours=5, minutes=45)), timezone.max])
def test_the_offset_of_a_time_is_kept(zone: timezone) -> None:
    event = DomainEvent(occurred_at=datetime(2026, 1, 5, 12, tzinfo=zone))
    assert read(event, serialize_event(event)).occurred_at.utcoffset() == zone.utcoffset(None)
