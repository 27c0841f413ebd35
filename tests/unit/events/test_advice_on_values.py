"""Every advice for a value that cannot be captured: taking it helps."""

import math
from array import array
from collections import OrderedDict, defaultdict, deque
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_serializer

from postroom.integrations.pydantic import PydanticEvent
from tests.unit.events.advice import Make, comes_back, held, refused, untyped
from tests.unit.events.builders import lists

ID = UUID("0199c0de-0000-7000-8000-000000000001")
WIEN = ZoneInfo("Europe/Vienna")
LONG = 10**5000


class Size(IntEnum):
    SMALL = 1


class Color(Enum):
    RED = "red"


class Name(str):
    __slots__ = ()


class Position(NamedTuple):
    x: int


@dataclass(frozen=True)
class Money:
    amount: int


@dataclass(frozen=True)
class Tip(Money):
    pass


class Pet(BaseModel):
    name: str


class Dog(Pet):
    loud: bool = True


@dataclass
class Knot:
    of: "Knot | None" = None


def knot() -> Knot:
    tied = Knot()
    tied.of = tied
    return tied


def model(annotation: Any, value: Any, **more: Any) -> Make:
    """Make a pydantic event with a field of this type; the value is not validated."""

    def make() -> Any:
        namespace = {"__annotations__": {"held": annotation}, "__module__": __name__, **more}
        cls: Any = type("Held", (PydanticEvent,), namespace)
        return cls.model_construct(**dict(cls(held=value)))

    return make


class Open(PydanticEvent):
    model_config = ConfigDict(extra="allow")


def opened(**fields: Any) -> Make:
    return lambda: Open(**fields)


def reveals(self: Any, secret: SecretStr) -> str:
    return secret.get_secret_value()


def halves(self: Any, number: int) -> int:
    return number // 2


def keeps(self: Any, number: int) -> int:
    return number


WITH_CLASS = ", or use an event class with a field of type"
REPAIR = "Join the halves: text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')."
HALF = "a\ud800"
WHOLE = HALF.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
KEEP = "and have pydantic write and read it unchanged."
NO_CYCLE = "Refer to other objects by their id."
NO_DEPTH = "Refer to other objects by their id, or store the inner levels as JSON text."

ADVICE: list[tuple[Make, str, list[Make]]] = [
    # a value of another type than the annotation says
    (held(int, "5"), "Annotate the field as str, or pass int.", [held(str, "5"), held(int, 5)]),
    (held(str, None), "Annotate the field as … | None, or pass str.",
     [held(str | None, None), held(str, "")]),
    (held(bytes, bytearray(b"x")), "Pass bytes.", [held(bytes, b"x")]),
    (held(dict[str, int], defaultdict(int)), "Pass dict.", [held(dict[str, int], {})]),
    (held(list[int], deque([1])), "Pass list.", [held(list[int], [1])]),
    (held(list[int], (1,)), "Annotate the field as tuple, or pass list.",
     [held(tuple, (1,)), held(list[int], [1])]),
    (held(tuple[int], Position(1)), "Pass tuple.", [held(tuple[int], (1,))]),
    (held(str, Name("x")), "Pass str.", [held(str, "x")]),
    (held(str, PurePosixPath("x")), "Pass str.", [held(str, "x")]),
    (held(str, Color.RED), "Annotate the field as Color, or pass .value.",
     [held(Color, Color.RED), held(str, Color.RED.value)]),
    (held(str, Size.SMALL), "Annotate the field as Size, or pass str.",
     [held(Size, Size.SMALL), held(str, "1")]),
    (held(float | str, Size.SMALL), "Annotate the field as Size, or pass float or str.",
     [held(Size, Size.SMALL), held(float | str, 1.0)]),
    (held(Color, "red"), "Annotate the field as str, or pass Color.",
     [held(str, "red"), held(Color, Color.RED)]),
    (held(Literal["a", 1], "b"), "Annotate the field as str, or pass 'a' or 1.",
     [held(str, "b"), held(Literal["a", 1], "a")]),
    (held(Money, Tip(1)), "Annotate the field as Tip, or pass Money.",
     [held(Tip, Tip(1)), held(Money, Money(1))]),
    (held(Pet | None, Dog(name="Rex")), "Annotate the field as Dog, or pass Pet or None.",
     [held(Dog, Dog(name="Rex")), held(Pet | None, Pet(name="Rex"))]),
    (held(date, datetime(2026, 1, 5, tzinfo=UTC)), "Annotate the field as datetime, or pass date.",
     [held(datetime, datetime(2026, 1, 5, tzinfo=UTC)), held(date, date(2026, 1, 5))]),
    (held(dict[str, int], {1: 1}), "Pass str.", [held(dict[str, int], {"1": 1})]),
    (held(tuple[int, int], (1,)), "Annotate the field as tuple[X, ...] for any number of items.",
     [held(tuple[int, ...], (1,))]),
    # a value in JSON without a type
    (untyped(at=ID), f"Pass a str{WITH_CLASS} UUID.", [untyped(at=str(ID)), held(UUID, ID)]),
    (untyped(at=Decimal(1)), f"Pass a str{WITH_CLASS} Decimal.",
     [untyped(at="1"), held(Decimal, Decimal(1))]),
    (held(Any, b"x"), f"Pass a str{WITH_CLASS} bytes.", [held(Any, "x"), held(bytes, b"x")]),
    (untyped(at=(1,)), f"Pass a list{WITH_CLASS} tuple.", [untyped(at=[1]), held(tuple, (1,))]),
    (untyped(at={1}), f"Pass a list{WITH_CLASS} set.", [untyped(at=[1]), held(set, {1})]),
    (untyped(at=array("i", [1])), "Pass a list.", [untyped(at=[1])]),
    (untyped(at=OrderedDict(a=1)), "Pass a dict.", [untyped(at={"a": 1})]),
    (untyped(at=Money(1)), f"Pass a dict{WITH_CLASS} Money.",
     [untyped(at=asdict(Money(1))), held(Money, Money(1))]),
    (untyped(at=Pet(name="Rex")), f"Pass a dict{WITH_CLASS} Pet.",
     [untyped(at=Pet(name="Rex").model_dump()), held(Pet, Pet(name="Rex"))]),
    (untyped(at=Size.SMALL), f"Pass its .value{WITH_CLASS} Size.",
     [untyped(at=Size.SMALL.value), held(Size, Size.SMALL)]),
    (untyped(at=object()), "Pass a str.", [untyped(at="x")]),
    (untyped(at={1: 1}), "Pass str.", [untyped(at={"1": 1})]),
    # numbers
    (untyped(at=1e16), f"Pass an int{WITH_CLASS} float.",
     [untyped(at=int(1e16)), held(float, 1e16)]),
    (held(int | float, 1e16), f"Pass an int{WITH_CLASS} float.",
     [held(int | float, int(1e16)), held(float, 1e16)]),
    (held(float, math.nan), "Pass None, in a field of type float | None.",
     [held(float | None, None)]),
    (untyped(at=math.inf), "Pass None, in a field of type float | None.", [untyped(at=None)]),
    (held(Decimal, Decimal("NaN")), "Pass None, in a field of type Decimal | None.",
     [held(Decimal | None, None)]),
    (held(int, LONG), "Pass hex(value), in a field of type str.", [held(str, hex(LONG))]),
    (untyped(at=LONG), "Pass hex(value), in a field of type str.", [untyped(at=hex(LONG))]),
    # text and times
    (untyped(at="a\0"), "Remove it.", [untyped(at="a")]),
    (held(str, HALF), REPAIR, [held(str, WHOLE)]),
    (untyped(at=HALF), REPAIR, [untyped(at=WHOLE)]),
    (held(time, time(12, tzinfo=WIEN)),
     "Use a fixed offset (datetime.timezone), or a datetime in that zone.",
     [held(time, time(12, tzinfo=timezone(timedelta(hours=1)))),
      held(datetime, datetime(2026, 1, 5, tzinfo=WIEN))]),
    (held(set[datetime],
          {datetime(2026, 10, 25, 2, 30, tzinfo=WIEN), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)}),
     "Remove one of them.", [held(set[datetime], {datetime(2026, 10, 25, 2, 30, tzinfo=WIEN)})]),
    # what is nested
    (held(Knot, knot()), NO_CYCLE, [held(UUID, ID)]),
    (untyped(at=lists(64)), NO_DEPTH, [untyped(at=lists(63)), untyped(at=str(lists(64)))]),
    # pydantic models
    (model(Any, (1,)), f"Annotate the field as tuple, {KEEP}", [model(tuple[int, ...], (1,))]),
    (model(UUID | str, str(ID)), f"Annotate the field as str, {KEEP}", [model(str, str(ID))]),
    (model(Pet, Dog(name="Rex")), f"Annotate the field as Dog, {KEEP}",
     [model(Dog, Dog(name="Rex"))]),
    (model(int, 5, half=field_serializer("held")(halves)), f"Annotate the field as int, {KEEP}",
     [model(int, 5, half=field_serializer("held")(keeps))]),
    (model(int, 5, held=Field(default=1, exclude=True)), f"Annotate the field as int, {KEEP}",
     [model(int, 5, held=Field(default=1))]),
    (model(SecretStr, SecretStr("hunter2")),
     "Store an id instead, or give the field a field_serializer that reveals it.",
     [model(UUID, ID),
      model(SecretStr, SecretStr("x"), reveal=field_serializer("held")(reveals))]),
    (model(OrderedDict[str, int], OrderedDict(a=1, b=2)), "Use dict, or a list of pairs.",
     [model(dict[str, int], {"a": 1, "b": 2}), model(list[tuple[str, int]], [("a", 1), ("b", 2)])]),
    (model(dict[tuple[int, int], int], {(1, 2): 3}),
     "Give it a type that pydantic reads back, or correct the payload.",
     [model(list[tuple[tuple[int, int], int]], [((1, 2), 3)])]),
    (model(Any, object()),
     "Pass a value of the field's type, and use types that pydantic writes as JSON.",
     [model(Any, "x")]),
    (opened(event_version=1), "Give it another name.", [opened(version=1)]),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "advice", "good"), ADVICE)
def test_an_advice_that_is_taken_helps(bad: Make, advice: str, good: list[Make]) -> None:
    refused(bad, advice)
    for make in good:
        comes_back(make)
