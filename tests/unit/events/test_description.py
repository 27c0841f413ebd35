"""What capture reads from an event: its name, version and key."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, IntEnum, StrEnum
from typing import Any, ClassVar
from uuid import UUID

import pytest

from postroom import CaptureError, DomainEvent, EventDefinitionError, UntypedEvent
from postroom.events.description import describe, key_text
from postroom.identity import uuid7

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


def untyped(**values: Any) -> UntypedEvent:
    return UntypedEvent(**{"event_type": "thing.happened", "payload": {}} | values)


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


@pytest.mark.parametrize(
    "weird",
    [1.5, b"a", (1, 2), [1], {"a": 1}, Composite(1, 2), datetime(2026, 1, 1), object()],  # noqa: DTZ001
)
def test_an_id_that_has_no_obvious_text_is_refused(weird: object) -> None:
    with pytest.raises(CaptureError, match=r"cannot use .* as an aggregate's id.*UUID"):
        describe(untyped(aggregate_id=weird))


def test_an_id_that_is_refused_is_told_with_its_event() -> None:
    with pytest.raises(CaptureError, match=r"thing\.happened.*1\.5"):
        describe(untyped(aggregate_id=1.5))


@pytest.mark.parametrize(
    "kind",
    [
        "a",
        Modern.A,
        Plain.A,
        Mixed.A,
    ],
)
def test_an_aggregate_s_type_is_text(kind: object) -> None:
    assert describe(untyped(aggregate_type=kind)).aggregate_type == "a"


def test_the_key_is_a_field_that_the_class_names() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Paid(DomainEvent, aggregate="invoice", key="invoice_id"):
        invoice_id: AccountId
        aggregate_id: int = 5  # another thing: the keyword decides

    assert describe(Paid(invoice_id=AccountId(ID))).aggregate_id == str(ID)


@pytest.mark.parametrize(("part", "limit"), [("aggregate_type", 128), ("aggregate_id", 512)])
def test_the_parts_of_a_key_have_limits(part: str, limit: int) -> None:
    longest = "é" * (limit // 2)
    assert getattr(describe(untyped(**{part: longest})), part) == longest
    error = rf"thing\.happened: field `{part}` has {limit + 1} bytes, and may have 0 to {limit}"
    with pytest.raises(CaptureError, match=error):
        describe(untyped(**{part: f"{longest}x"}))


def test_an_event_may_have_no_aggregate() -> None:
    described = describe(DomainEvent())
    assert (described.aggregate_type, described.aggregate_id) == (None, None)


def test_a_keyword_goes_before_an_attribute() -> None:
    class Both(DomainEvent, aggregate="keyword", version=2):
        aggregate_type: ClassVar[str] = "attribute"

    assert describe(Both()).aggregate_type == "keyword"
    assert describe(Both()).event_version == 2


@dataclass(frozen=True)
class Nameless:
    occurred_at: datetime


@dataclass(frozen=True)
class Timeless:
    event_id: UUID


@dataclass(frozen=True)
class Wrong:
    event_id: str
    occurred_at: datetime


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (Nameless(datetime.now(UTC)), r"Nameless is not an event: its `event_id` is None"),
        (Timeless(ID), r"Timeless is not an event: its `occurred_at` is None"),
        (
            Wrong("x", datetime.now(UTC)),
            r"Wrong is not an event: its `event_id` is 'x', not a UUID",
        ),
    ],
)
def test_what_has_no_id_or_no_time_is_no_event(event: Any, error: str) -> None:
    with pytest.raises(EventDefinitionError, match=f"{error}.*DomainEvent"):
        describe(event)


@pytest.mark.parametrize("version", [0, -1, "2", 2**31, None])
def test_a_version_that_is_none_is_refused(version: Any) -> None:
    with pytest.raises(CaptureError, match=r"thing\.happened.*version"):
        describe(untyped(event_version=version))


@pytest.mark.parametrize("payload", [None, "text", 5, [("a", 1)]])
def test_a_payload_that_is_no_mapping_is_refused(payload: Any) -> None:
    with pytest.raises(CaptureError, match=r"thing\.happened.*payload"):
        describe(untyped(payload=payload))


@pytest.mark.parametrize("key", [1, None, ("a",), uuid7()])
def test_a_payload_s_names_are_text(key: Any) -> None:
    with pytest.raises(CaptureError, match=r"cannot capture thing\.happened"):
        describe(untyped(payload={"fine": 1, key: 2}))


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
