"""Values that a class keeps outside its fields, or does not take back: refused at capture."""

from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any

import pytest
from pydantic import BaseModel, Field, PrivateAttr, field_serializer

from postroom import (
    AggregateRoot,
    CaptureError,
    DomainEvent,
    EventRegistry,
    deserialize_event,
    serialize_event,
)
from postroom.events.codec import same
from postroom.integrations.pydantic import PydanticEvent


class Inner(BaseModel):
    _note: str = PrivateAttr(default="")

    def noted(self, note: str) -> "Inner":
        self._note = note
        return self


class Private(PydanticEvent):
    number: int = 1
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    _secret: str = PrivateAttr(default="")

    def with_secret(self, secret: str) -> "Private":
        self._secret = secret
        return self


class Hidden(PydanticEvent):
    number: int = Field(repr=False)

    @field_serializer("number")
    def _rounded(self, number: int) -> int:
        return number // 10 * 10


class HoldingModel(PydanticEvent):
    hidden: dict[str, Hidden]


class Raising(PydanticEvent):
    number: int

    def __init__(self, number: int, **others: Any) -> None:
        super().__init__(**{"number": number + 1, **others})


@dataclass(frozen=True, kw_only=True)
class Paid(DomainEvent):
    amount: int

    def __init__(self, amount: int, note: str = "") -> None:
        super().__init__()
        object.__setattr__(self, "amount", amount)
        object.__setattr__(self, "note", note)


@dataclass(frozen=True, kw_only=True)
class Picky(DomainEvent):
    cents: int

    def __init__(self, cents: int) -> None:
        if cents > 100:
            raise ValueError("too much")
        super().__init__()
        object.__setattr__(self, "cents", cents * 100)


@dataclass(frozen=True, kw_only=True)
class PositionalOnly(DomainEvent):
    amount: int

    def __init__(self, amount: int, /) -> None:
        super().__init__()
        object.__setattr__(self, "amount", amount)


@dataclass(frozen=True, kw_only=True)
class Noted(DomainEvent):
    amount: int
    note: InitVar[str] = ""

    def __post_init__(self, note: str) -> None:
        object.__setattr__(self, "_note", note)


@dataclass(frozen=True, kw_only=True)
class Derived(DomainEvent):
    email: str
    tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_domain", self.email.partition("@")[2])

    @cached_property
    def shouted(self) -> str:
        return self.email.upper()


@dataclass
class Tagged:
    number: int

    def with_tag(self, tag: str) -> "Tagged":
        self.tag = tag
        return self


@dataclass
class Customer(AggregateRoot):
    name: str


@dataclass(frozen=True, kw_only=True)
class Holding(DomainEvent):
    tagged: Tagged | None = None
    customer: Customer | None = None


@dataclass
class Money:
    amount: int

    def __init__(self, amount: int, note: str = "") -> None:
        self.amount, self.note = amount, note


@dataclass(frozen=True, kw_only=True)
class Nested(DomainEvent):
    prices: list[Money]


LOST = (
    r"is an attribute outside the fields of the class.*Make it a field or a property, or leave it"
)


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (Private().with_secret("x"), rf"field `_secret` {LOST}"),
        (Private(inner=Inner().noted("x")), rf"field `inner._note` {LOST}"),
        (Private(inners=(Inner(), Inner().noted("x"))), rf"field `inners\[1\]._note` {LOST}"),
        (
            HoldingModel(hidden={"a b": Hidden(number=15)}),
            r"`hidden\['a b'\].number` does not come back as it went in: 15 becomes 10",
        ),
        (Raising(1), r"field `number` does not come back as it went in: 2 becomes 3"),
        (Paid(5, "lost"), rf"field `note` {LOST}"),
        (
            Picky(5),
            r"cannot be built again.*ValueError: too much.*Have Picky.__init__ take each field",
        ),
        (PositionalOnly(5), r"it cannot be built again.*TypeError.*PositionalOnly.__init__"),
        (Holding(tagged=Tagged(1).with_tag("lost")), rf"field `tagged.tag` {LOST}"),
        (Noted(amount=5, note="lost"), rf"field `_note` {LOST}"),
        (Nested(prices=[Money(1), Money(2, "lost")]), rf"field `prices\[1\].note` {LOST}"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_be_lost_is_refused_at_capture(event: Any, error: str) -> None:
    with pytest.raises(CaptureError, match=error):
        serialize_event(event)


def raising(customer: Customer) -> Customer:
    """Give an aggregate that has raised an event."""
    customer.raise_event(Paid(5))
    return customer


def used(event: Derived) -> Derived:
    """Give an event whose cached property has been read."""
    assert event.shouted
    return event


@pytest.mark.parametrize(
    "event",
    [
        Private(inner=Inner(), inners=(Inner(),)),
        Paid(5),
        Noted(amount=5),
        Derived(email="a@b.com"),
        used(Derived(email="a@b.com")),
        Nested(prices=[Money(1)]),
        Holding(tagged=Tagged(1), customer=raising(Customer("Ann"))),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_the_class_makes_again_is_no_loss(event: Any) -> None:
    registry = EventRegistry()
    registry.register(type(event))
    back = deserialize_event(type(event).__name__, serialize_event(event), registry=registry)
    assert same(back, event)
