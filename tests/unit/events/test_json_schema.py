"""The JSON Schema of an event class accepts what the class writes."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntFlag
from typing import Any, Literal
from uuid import UUID

import pytest
from jsonschema_rs import ValidationError, meta, validator_for

from postroom import DomainEvent, UntypedEvent
from postroom.events.json_schema import json_schema
from postroom.events.payload import encode_event
from postroom.integrations.pydantic import PydanticEvent
from tests.unit.events.stored.cases import Case
from tests.unit.events.stored.rows import CASES

SEVEN = UUID(int=7)


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Rights(IntFlag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Node:
    name: str
    children: list["Node"] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Everything(DomainEvent, aggregate="thing", key="number", case="camel", rename={"day": "d"}):
    number: int
    share: float = 0.5
    price: Decimal = Decimal("1.50")
    some_uuid: UUID = SEVEN
    data: bytes = b"hi"
    day: date = date(2024, 5, 1)
    moment: datetime = datetime(2024, 5, 1, 12, tzinfo=UTC)
    hour: time = time(12, 30, tzinfo=UTC)
    pause: timedelta = timedelta(seconds=90.5)
    color: Color = Color.RED
    rights: Rights = Rights.READ | Rights.WRITE
    size: Literal["s", "m"] = "s"
    note: str | None = None
    tree: Node = Node("root", [Node("leaf")])
    tags: frozenset[str] = frozenset({"a"})
    pair: tuple[int, str] = (1, "a")
    many: tuple[int, ...] = (1, 2)
    by_name: dict[str, int] = field(default_factory=lambda: {"a": 1})
    anything: dict[str, Any] = field(default_factory=lambda: {"a": [None]})


class Modelled(PydanticEvent, aggregate="thing", key="number", case="camel"):
    number: int
    long_name: str = "x"


def validate(document: object, event_class: type, *, formats: bool = True) -> None:
    schema = json_schema(event_class)
    meta.validate(schema)
    validator_for(schema, validate_formats=formats).validate(document)


@pytest.mark.parametrize("event", [Everything(number=1), Modelled(number=1)])
def test_what_a_class_writes_fits_its_schema(event: Any) -> None:
    document = encode_event(event)
    validate(document, type(event))
    properties = json_schema(type(event))["properties"]
    assert set(document) <= set(properties)


TYPED = [
    case
    for case in CASES
    if not isinstance(case.written, UntypedEvent)
    and case.name != "deep_event"  # which cannot be written any more
]


@pytest.mark.parametrize("case", TYPED, ids=lambda case: case.name)
def test_every_kind_of_class_has_a_schema_that_its_events_fit(case: Case) -> None:
    validate(encode_event(case.written), type(case.written), formats=False)


@pytest.mark.parametrize(
    "wrong",
    [{"number": "1"}, {"color": "green"}, {"size": "l"}, {"tree": {"name": 1}}, {"pair": ["a", 1]}],
    ids=str,
)
def test_another_value_does_not_fit(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        validate(encode_event(Everything(number=1)) | wrong, Everything)


def test_fields_without_a_default_are_required() -> None:
    assert json_schema(Everything)["required"] == ["number"]
    assert json_schema(Everything)["title"] == "Everything"
    assert "d" in json_schema(Everything)["properties"]
