"""Every advice for a class, a name, a key or a version that cannot be stored: taking it helps."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import InitVar, dataclass, field, make_dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel
from typing_extensions import TypeAliasType, TypedDict

from postroom import Delayed, DomainEvent, Event, UntypedEvent
from tests.unit.events.advice import Make, comes_back, held, refused, untyped

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
Unresolved = TypeAliasType("Unresolved", "list[Unresolved]")


class Torn(Enum):
    ONE = ("a", 1)
    OTHER = ["a", 1]  # noqa: RUF012  it looks the same in JSON


class Whole(Enum):
    ONE = "a"
    OTHER = "b"


class Odd(Enum):
    ONE = 1j


class Position(NamedTuple):
    x: int


class Address(TypedDict):
    street: str


class Cat(BaseModel):
    lives: int = 9


class Dog(BaseModel):
    loud: bool = True


@dataclass(frozen=True)
class Place:
    x: int = 1


@dataclass(frozen=True)
class Card:
    number: str = "4"


@dataclass(frozen=True)
class Cash:
    coins: int = 1


@dataclass(frozen=True)
class TaggedCard(Card):
    kind: Literal["card"] = "card"


@dataclass(frozen=True)
class TaggedCash(Cash):
    kind: Literal["cash"] = "cash"


@dataclass(frozen=True)
class Branch:
    branches: "tuple[Branch, ...]" = ()


@dataclass(frozen=True)
class AnId:
    value: UUID


class Forgetful(DomainEvent):
    number: int = 1


@dataclass(frozen=True)
class Mindful(DomainEvent):
    number: int = 1


@dataclass(frozen=True, kw_only=True)
class Scaled(DomainEvent):
    scale: InitVar[int]


@dataclass(frozen=True, kw_only=True)
class ScaledByDefault(DomainEvent):
    scale: InitVar[int] = 1


@dataclass(frozen=True)
class NoEvent:
    number: int = 1


@dataclass(frozen=True, kw_only=True)
class AVersion(DomainEvent):
    event_version: int = 1


def event(fields: list[tuple[str, Any, Any]], /, *, bases: Any = (DomainEvent,), **kw: Any) -> Make:
    """Make an event of a class with these fields and class keywords."""

    def make() -> Event:
        base: Any = type("Base", bases, {}, **kw)
        own: list[Any] = [(name, tp, field(default=value)) for name, tp, value in fields]
        cls = make_dataclass("Held", own, bases=(base,), frozen=True, kw_only=True)
        made: Event = cls()
        return made

    return make


def keyed(value: Any) -> Make:
    return event([("held", type(value), value)], key="held")


def happened(**values: Any) -> Make:
    return lambda: UntypedEvent(**{"event_type": "thing", "payload": {}} | values)


def delayed(until: datetime) -> Make:
    return lambda: Delayed(untyped()(), until)


def endless() -> Event:
    """An event with a field of a type alias that refers to itself, as `type X = …` can."""

    class Alias:
        @property
        def __value__(self) -> Any:
            return list[self]  # type: ignore[valid-type]

    Alias.__name__ = "TypeAliasType"
    return held(Alias(), [])()


CONCRETE = "Use a dataclass with concrete types, or convert it to str."
ONE_OF_THEM = "Use one of them, or two fields."
TAG = "Give each dataclass a Literal field with a value of its own, or use two fields."
TWO_FIELDS = event([("first", Any, None), ("second", Any, None)])
AN_ID = "Use a UUID, an integer, a string, or a dataclass that holds one of these."
AWARE = "Use an aware datetime, such as datetime.now(UTC)."
DERIVE = "Derive it from DomainEvent (or PydanticEvent), which gives it one."

ADVICE: list[tuple[Make, str, list[Make]]] = [
    # types that JSON cannot give back
    (held(Path, Path()), "Use str.", [held(str, ".")]),
    (held(bytearray, bytearray()), "Use bytes.", [held(bytes, b"")]),
    (held(defaultdict[str, int], {}), "Say dict, or use a dataclass.",
     [held(dict[str, int], {}), held(Place, Place())]),
    (held(Address, {"street": "Ring"}), "Say dict, or use a dataclass.",
     [held(dict, {"street": "Ring"}), held(Place, Place())]),
    (held(Position, Position(1)), "Use a frozen dataclass.", [held(Place, Place())]),
    (held(AbstractSet[int], {1}), "Say set or frozenset.",
     [held(set[int], {1}), held(frozenset[int], frozenset({1}))]),
    (held(Sequence[int], [1]), "Say list or tuple.",
     [held(list[int], [1]), held(tuple[int, ...], (1,))]),
    (held(Collection[int], [1]), "Say list or tuple.", [held(list[int], [1])]),
    (held(complex, 1j), CONCRETE, [held(Place, Place()), held(str, "1j")]),
    (held(Callable[[], int], int), CONCRETE, [held(str, "int")]),
    (held("Nowhere", 1),
     "Define or import the name at the module's top level, not under TYPE_CHECKING.",
     [held("int", 1)]),
    (held(Unresolved, []),
     "Use concrete types; a type that refers to itself has to be a dataclass.",
     [held(Branch, Branch((Branch(),)))]),
    (endless, "Make it a dataclass.", [held(Branch, Branch((Branch(),)))]),
    (held(Torn, Torn.ONE), "Give one of them another value.", [held(Whole, Whole.ONE)]),
    (held(Odd, Odd.ONE), "Give the member a str or an int as its value.", [held(Whole, Whole.ONE)]),
    (held(UUID | str, "x"), ONE_OF_THEM, [held(str, "x"), TWO_FIELDS]),
    (held(Cat | Dog, Cat()), ONE_OF_THEM, [held(Cat, Cat()), TWO_FIELDS]),
    (held(Card | Cash, Card()), TAG, [held(TaggedCard | TaggedCash, TaggedCard()), TWO_FIELDS]),
    # classes
    (Forgetful, "Put @dataclass(frozen=True) on Forgetful.", [Mindful]),
    (lambda: Scaled(scale=1), "Give it a default, or make it a field.",
     [ScaledByDefault, event([("scale", int, 1)])]),
    (NoEvent, DERIVE, [Mindful]),  # type: ignore[list-item]
    (event([], rename={"nobody": "x"}), "Remove it from `rename`.", [event([], rename={})]),
    (event([("a_b", int, 1), ("aB", int, 1)], case="camel"), "Rename one of them.",
     [event([("a_b", int, 1), ("aB", int, 1)], case="camel", rename={"a_b": "c"})]),
    (event([("eventVersion", int, 1)], case="camel"), "Rename one of them.",
     [event([("eventVersion", int, 1)], case="camel", rename={"eventVersion": "number"})]),
    # versions
    (event([("event_version", int, 1)], version=2),
     "Remove the keyword, and give the field the default 2.", [event([("event_version", int, 2)])]),
    (event([("event_version", int, 0)]), "Versions are 1, 2, 3, …",
     [event([("event_version", int, 1)])]),
    (event([("event_version", str, "1")]), "Versions are 1, 2, 3, …",
     [event([("event_version", int, 1)])]),
    (lambda: AVersion(event_version=7), "Leave it to its default.", [AVersion]),
    (happened(event_version=0), "Versions are 1, 2, 3, …", [happened(event_version=1)]),
    # names, keys and times
    (event([], key="nobody"), "Name a field or a property.", [event([("one", int, 1)], key="one")]),
    (keyed(1.5), AN_ID, [keyed(uuid4()), keyed(1), keyed("x"), keyed(AnId(uuid4()))]),
    (happened(event_type=""), "Give it a name.", [happened(event_type="x")]),
    (happened(event_type="x" * 256), "Shorten it.", [happened(event_type="x" * 255)]),
    (happened(event_type=5), "Give it as plain text.", [happened(event_type="5")]),
    (happened(payload=[1]), "Put it into one, under a name.", [happened(payload={"name": [1]})]),
    (happened(occurred_at=NOW.replace(tzinfo=None)), AWARE, [happened(occurred_at=NOW)]),
    (delayed(NOW.replace(tzinfo=None)), AWARE, [delayed(NOW)]),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "advice", "good"), ADVICE)
def test_an_advice_that_is_taken_helps(bad: Make, advice: str, good: list[Make]) -> None:
    refused(bad, advice)
    for make in good:
        comes_back(make)
