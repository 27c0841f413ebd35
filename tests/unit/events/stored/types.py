"""One event per type that a field can have."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum
from typing import Annotated, Any, Final, Literal, NewType, Optional, Union
from uuid import UUID

from typing_extensions import TypeAliasType

from postroom import DomainEvent, Event
from tests.unit.events.stored.cases import Case, case, stamp

NEPAL = timezone(timedelta(hours=5, minutes=45))
AMSTERDAM = timezone(timedelta(minutes=19, seconds=32))
ID = UUID("0199c0de-0000-7000-8000-000000000001")
OTHER_ID = UUID("550e8400-e29b-41d4-a716-446655440000")


class Plain(Enum):
    TEXT = "text"
    NUMBER = 1
    NOTHING = None


class Pair(Enum):
    ONE = (1, "one")
    TWO = (2, Decimal("2.0"))


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Color(StrEnum):
    RED = "red"


class Right(Flag):
    READ = 1
    WRITE = 2


class Bits(IntFlag):
    LOW = 1
    HIGH = 8


@dataclass(frozen=True)
class Money:
    amount: Decimal
    currency: str = "EUR"


@dataclass(frozen=True, slots=True)
class Point:
    x_axis: int
    y_axis: int


@dataclass
class Bag:
    held_items: list[Money] = field(default_factory=list)
    by_point: dict[Point, Money | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Card:
    number: str
    kind: Literal["card"] = "card"


@dataclass(frozen=True)
class Cash:
    coins: int
    kind: Literal["cash"] = "cash"


@dataclass(frozen=True)
class Node:
    label: str
    children: tuple["Node", ...] = ()


@dataclass
class Doubled:
    number: int
    double: int = field(init=False)

    def __post_init__(self) -> None:
        self.double = 2 * self.number


CustomerId = NewType("CustomerId", UUID)
Tags = TypeAliasType("Tags", tuple[str, ...])

TYPES: dict[str, tuple[Any, list[Any]]] = {
    "str": (str, ["", "Ünï 💌", 'line\nbreak \\ "quoted" \x01']),
    "int": (int, [0, -1, 2**63, -(10**40)]),
    "float": (float, [0.0, 0.1, -2.5, 1.0, 1e16, 1e22, 1.5e300, 5e-324]),
    "bool": (bool, [True, False]),
    "none": (None, [None]),
    "decimal": (Decimal, [Decimal(text) for text in ("1.50", "-0", "1E+5", "0.00", "1E-400")]),
    "uuid": (UUID, [ID, OTHER_ID]),
    "date": (date, [date(2024, 2, 29), date.min, date.max]),
    "time": (time, [time(12, 30), time(0, 0, 0, 1), time(8, tzinfo=UTC), time(8, tzinfo=NEPAL)]),
    "datetime": (
        datetime,
        [
            datetime(2024, 5, 1, 12),  # noqa: DTZ001  naive on purpose
            datetime(2024, 5, 1, 12, 0, 0, 120_000, tzinfo=UTC),
            datetime(2024, 5, 1, 12, tzinfo=NEPAL),
            datetime(1920, 5, 1, 12, tzinfo=AMSTERDAM),
            datetime(1920, 5, 1, 12, tzinfo=timezone(timedelta(microseconds=-5))),
        ],
    ),
    "timedelta": (
        timedelta,
        [timedelta(), timedelta(seconds=90.5), timedelta(days=-1, microseconds=1), timedelta.max],
    ),
    "bytes": (bytes, [b"", b"\x00\xff", b"hi"]),
    "enum": (Plain, list(Plain)),
    "enum_of_tuples": (Pair, list(Pair)),
    "int_enum": (Size, list(Size)),
    "str_enum": (Color, list(Color)),
    "flag": (Right, [Right.READ, Right.READ | Right.WRITE, Right(0)]),
    "int_flag": (Bits, [Bits.LOW, Bits.LOW | Bits.HIGH, Bits(0)]),
    "literal": (Literal["a", 1, True, None, b"x", Size.LARGE], ["a", 1, True, None, b"x"]),
    "list": (list[Decimal], [[], [Decimal("1.0"), Decimal(2)]]),
    "list_of_anything": (list, [[], [1, "a", None, {"b": [2.5]}]]),
    "tuple_of_any_length": (tuple[date, ...], [(), (date(2024, 5, 1),) * 3]),
    "tuple_of_fixed_length": (tuple[int, str, UUID], [(1, "a", ID)]),
    "empty_tuple": (tuple[()], [()]),
    "set": (set[int], [set(), {3, 1, 2}]),
    "frozenset": (frozenset[UUID], [frozenset({ID, OTHER_ID})]),
    "dict": (dict[str, Decimal], [{}, {"zeta": Decimal(1), "a": Decimal("2.0"), "": Decimal(3)}]),
    "dict_of_anything": (dict, [{"a": {"b": [None, True, 1, 1.5, "c"]}}]),
    "dict_by_int": (dict[int, str], [{1: "one", -2: "minus two"}]),
    "dict_by_uuid": (dict[UUID, int], [{ID: 1}]),
    "dict_by_bool_or_none": (dict[bool | None, int], [{True: 1, False: 0, None: -1}]),
    "dict_by_tuple": (dict[tuple[int, str], int], [{(1, "a"): 1, (2, "b"): 2}]),
    "dict_by_enum": (dict[Size, int], [{Size.SMALL: 1}]),
    "dict_by_dataclass": (dict[Point, str], [{Point(1, 2): "here"}]),
    "mapping": (Mapping[date, int], [{date(2024, 5, 1): 1}]),
    "mutable_mapping": (MutableMapping[str, int], [{"a": 1}]),
    "anything": (Any, [None, True, 1, 1.5, "a", [1, [2]], {"a": {"b": 1}}]),
    "object": (object, [{"a": [1]}, "b"]),
    "optional": (Optional[Money], [None, Money(Decimal("9.90"))]),  # noqa: UP045  as users write it
    "union": (Union[int, str, None, list[date]], [1, "a", None, [date(2024, 5, 1)]]),  # noqa: UP007
    "int_or_float": (int | float, [1, 1.5, 2.0, 10**30]),
    "literal_or_other": (Literal["max"] | int | None, ["max", 5, None]),
    "tagged_union": (Card | Cash, [Card("4111"), Cash(3)]),
    "dataclass": (Money, [Money(Decimal("9.90")), Money(Decimal(1), "USD")]),
    "slotted_dataclass": (Point, [Point(1, -1)]),
    "nested_dataclass": (Bag, [Bag(), Bag([Money(Decimal(1))], {Point(0, 0): None})]),
    "recursive_dataclass": (Node, [Node("root", (Node("leaf"), Node("branch", (Node("leaf"),))))]),
    "field_that_init_does_not_take": (Doubled, [Doubled(2)]),
    "new_type": (CustomerId, [CustomerId(ID)]),
    "alias": (Tags, [("a", "b")]),
    "annotated": (Annotated[int, "at least 1"], [5]),
}


def held(name: str, tp: Any, values: list[Any]) -> Event:
    """An event that holds these values in a field of this type."""
    cls = make_dataclass(
        "Held",
        [("held", list[tp]), ("first", Final[tp])],
        bases=(DomainEvent,),
        frozen=True,
        kw_only=True,
        namespace={"event_type": name},
    )
    event: Event = cls(held=values, first=values[0], **stamp(name))
    return event


CASES: list[Case] = [
    case(name, held(f"types.{name}", tp, values)) for name, (tp, values) in TYPES.items()
]
