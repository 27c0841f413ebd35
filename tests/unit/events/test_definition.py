"""What is refused when an event class is defined, and what has to wait for its first use."""

from __future__ import annotations

from dataclasses import KW_ONLY, InitVar, dataclass, field
from datetime import date
from ipaddress import IPv4Address, IPv6Network
from types import new_class
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    TypedDict,
    TypeVar,
)

import pytest

from postroom import DomainEvent, EventDefinitionError
from postroom.events.payload import decode_event, encode_event

T = TypeVar("T")
OPEN: Any = Generic[T]  # type: ignore[index]


class Point(NamedTuple):
    x: int
    y: int


class Size(TypedDict):
    width: int


@dataclass(frozen=True)
class Page(Generic[T]):
    items: list[T]


@dataclass(frozen=True)
class Holder:
    point: Point


UNFIT: list[Any] = [Point, Size, Page[int], Page, IPv4Address, IPv6Network, complex, Holder]
NESTED: list[Any] = [list[Point], dict[str, Size], Point | None, Annotated[Point, "x"]]


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("unfit", [*UNFIT, *NESTED], ids=repr)
def test_a_field_that_cannot_be_kept_is_refused_where_the_class_is_defined(
    unfit: Any, as_text: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "Unfit", unfit)
    members = {"__module__": __name__, "__annotations__": {"what": "Unfit" if as_text else unfit}}
    error = r"Drawn cannot be an event: field `what\b.*cannot be restored exactly from JSON"
    with pytest.raises(EventDefinitionError, match=error):
        type("Drawn", (DomainEvent,), members)


@pytest.mark.parametrize("bases", [(DomainEvent, OPEN), (OPEN, DomainEvent)])
def test_a_field_that_a_generic_base_leaves_open_is_refused_in_the_class_that_closes_it(
    bases: Any,
) -> None:
    members = {"__module__": __name__, "__annotations__": {"value": T}}
    base = new_class("Changed", bases, exec_body=lambda body: body.update(members))
    Changed: Any = dataclass(frozen=True, kw_only=True)(base)  # noqa: N806

    @dataclass(frozen=True, kw_only=True)
    class NameChanged(Changed[str]):  # type: ignore[misc]
        value: str

    with pytest.raises(EventDefinitionError, match=r"SizeChanged cannot be an event: .*`value`"):

        class SizeChanged(Changed[int]):  # type: ignore[misc]
            pass

    event = NameChanged(value="x")
    assert decode_event(NameChanged, encode_event(event)) == event


@dataclass(frozen=True, kw_only=True)
class Fitting(DomainEvent):
    """Each annotation is a text, and some name what comes later."""

    class Kind(NamedTuple):
        """Of no field."""

    _: KW_ONLY
    registry: ClassVar[Point | None] = None
    limit: InitVar[Point | None] = None
    date: date | None = field(default_factory=lambda: None)
    parent: Fitting | None = None
    node: Node | None = None


@dataclass(frozen=True)
class Node:
    later: list[Later]
    children: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Held(DomainEvent):
    node: Node | None = None


@dataclass(frozen=True)
class Later:
    number: int


@pytest.mark.parametrize("event_class", [Fitting, Held])
def test_a_class_that_names_what_comes_later_can_be_defined(event_class: Any) -> None:
    event = event_class(node=Node([Later(1)], (Node([]),)))
    assert decode_event(event_class, encode_event(event)) == event
