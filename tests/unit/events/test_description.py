"""What capture reads from an event: its name, version and key."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum, IntEnum, StrEnum
from types import SimpleNamespace
from typing import Any, ClassVar
from uuid import UUID

import pytest

from postroom import CaptureError, DomainEvent, EventDefinitionError
from postroom.events.description import check_event, describe, key_text
from postroom.identity import uuid7
from tests.unit.events.builders import untyped

ID = UUID("550e8400-e29b-41d4-a716-446655440000")


class Plain(Enum):
    A = "a"
    NUMBER = 7


class Mixed(str, Enum):  # noqa: UP042  as it was written before Python 3.11
    A = "a"


class Modern(StrEnum):
    A = "a"


class Number(IntEnum):
    SEVEN = 7


@dataclass(frozen=True)
class AccountId:
    value: UUID


@dataclass(frozen=True)
class Wrapped:
    inner: AccountId


@dataclass(frozen=True)
class Composite:
    left: int
    right: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("a", "a"),
        ("", ""),
        (ID, str(ID)),
        (0, "0"),
        (7, "7"),
        (-7, "-7"),
        (2**70, str(2**70)),
        (Plain.A, "a"),
        (Plain.NUMBER, "7"),
        (Modern.A, "a"),
        (Number.SEVEN, "7"),
        (Mixed.A, "a"),
        (AccountId(ID), str(ID)),
        (Wrapped(AccountId(ID)), str(ID)),
    ],
)
def test_an_aggregate_s_id_is_text(value: object, text: str | None) -> None:
    assert key_text(value) == text
    assert describe(untyped(aggregate_id=value)).aggregate_id == text


@pytest.mark.parametrize("kind", ["a", Modern.A, Plain.A, Mixed.A])
def test_an_aggregate_s_type_is_text(kind: object) -> None:
    assert describe(untyped(aggregate_type=kind)).aggregate_type == "a"


def test_the_key_is_a_field_that_the_class_names() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Paid(DomainEvent, aggregate="invoice", key="invoice_id"):
        invoice_id: AccountId
        aggregate_id: int = 5  # another thing: the keyword decides

    assert describe(Paid(invoice_id=AccountId(ID))).aggregate_id == str(ID)


def test_an_event_may_have_no_aggregate() -> None:
    described = describe(DomainEvent())
    assert (described.aggregate_type, described.aggregate_id) == (None, None)


@pytest.mark.parametrize("name", ["aggregate_type", "aggregate_id", "number"])
def test_an_attribute_error_of_a_property_is_raised(name: str) -> None:
    """It is a mistake in the property's code. Without the error, the record would have no key."""

    def mistaken(event: Any) -> Any:
        return event.ordre_id

    keywords = {"key": "number"} if name == "number" else {}
    shipped: Any = type("Shipped", (DomainEvent,), {name: property(mistaken)}, **keywords)
    with pytest.raises(AttributeError, match="ordre_id"):
        describe(shipped())


def test_a_keyword_goes_before_an_attribute() -> None:
    class Both(DomainEvent, aggregate="keyword", version=2):
        aggregate_type: ClassVar[str] = "attribute"

    assert describe(Both()).aggregate_type == "keyword"
    assert describe(Both()).event_version == 2


LIMITS = [("event_type", 1, 255), ("aggregate_type", 0, 128), ("aggregate_id", 0, 512)]


@pytest.mark.parametrize(("field", "least", "most"), LIMITS)
@pytest.mark.parametrize("letter", ["é", "💌"])
def test_names_and_keys_have_limits_in_bytes(
    field: str, least: int, most: int, letter: str
) -> None:
    size = len(letter.encode())
    longest = letter * (most // size) + "x" * (most % size)
    assert getattr(describe(untyped(**{field: longest})), field) == longest
    error = rf"field `{field}` has {most + 1} bytes, and may have {least} to {most}"
    with pytest.raises(CaptureError, match=error):
        describe(untyped(**{field: f"{longest}x"}))


def test_the_name_of_a_class_has_the_same_limit() -> None:
    long: Any = type("L" * 256, (DomainEvent,), {})
    with pytest.raises(CaptureError, match="has 256 bytes"):
        describe(long())


NO_ID = [1.5, b"a", (1, 2), [1], {"a": 1}, Composite(1, 2), datetime(2026, 1, 1), object()]  # noqa: DTZ001
NO_MOMENT = [datetime(2026, 1, 5), datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))]  # noqa: DTZ001
WRONG: dict[str, list[Any]] = {
    "event_type": ["", 5, None, b"x", "a\0b", "a\ud800"],
    "event_version": [0, -1, "2", 2**31, None],
    "aggregate_type": ["a\0b", "a\ud800"],
    "aggregate_id": ["a\0b", "a\ud800", *NO_ID],
    "occurred_at": NO_MOMENT,
    "payload": [None, "text", 5, [("a", 1)]],
    "keys": [{"fine": 1, key: 2} for key in (1, None, ("a",), uuid7())],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in WRONG.items() for value in values]
)
def test_what_no_record_can_hold_is_refused_by_its_field(field: str, value: Any) -> None:
    values = {"payload" if field == "keys" else field: value}
    with pytest.raises(CaptureError, match=rf"^cannot capture .*: field `{field}\b"):
        describe(untyped(**values))


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (SimpleNamespace(occurred_at=datetime.now(UTC)), "`event_id` is None"),
        (SimpleNamespace(event_id=ID), "`occurred_at` is None"),
        (SimpleNamespace(event_id="x", occurred_at=datetime.now(UTC)), "'x', not a UUID"),
    ],
)
def test_what_has_no_id_or_no_time_is_no_event(event: Any, problem: str) -> None:
    with pytest.raises(EventDefinitionError, match=rf"is not an event: its .*{problem}"):
        check_event(event)


def test_what_is_described_does_not_change_any_more() -> None:
    items = [1]
    described = describe(untyped(payload={"nested": {"items": items}}))
    items.append(2)
    assert described.payload == {"nested": {"items": [1]}}


def test_what_a_typed_event_holds_does_not_change_any_more() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Listed(DomainEvent):
        items: list[int]
        anything: Any

    items = [1]
    described = describe(Listed(items=items, anything={"items": items}))
    items.append(2)
    assert described.payload["items"] == [1]
    assert described.payload["anything"] == {"items": [1]}
