"""One event per way to define a class: names, cases, versions, and no class at all."""

from dataclasses import InitVar, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar
from uuid import UUID

from pydantic import Field
from pydantic.dataclasses import dataclass as pydantic_dataclass

from postroom import DomainEvent, EventRegistry, UntypedEvent
from tests.unit.events.builders import lists
from tests.unit.events.stored.cases import MOMENT, Case, case, event_id, stamp
from tests.unit.events.stored.types import Bag, Money, Node, Point


@dataclass(frozen=True, kw_only=True)
class AccountOpened(DomainEvent, aggregate="account", key="account_id"):
    kind: ClassVar[str] = "account"
    account_id: UUID
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SlottedOpened(DomainEvent, naming="dotted"):
    account_id: int


@dataclass(frozen=True, kw_only=True)
class QualifiedOpened(DomainEvent, naming="qualified"):
    account_id: int


@dataclass(frozen=True, kw_only=True)
class FamilyEvent(DomainEvent, case="camel", rename={"occurred_at": "occurredOn"}):
    event_version: int = 1


@dataclass(frozen=True, kw_only=True)
class MemberInvited(FamilyEvent, rename={"occurred_at": "occurredOn", "invited_by": "by"}):
    member_bag: Bag
    invited_by: str
    _private_note: str = ""


@dataclass(frozen=True, kw_only=True)
class SecondVersion(DomainEvent, version=2):
    street: str


@dataclass(frozen=True, kw_only=True)
class SecondCamelVersion(DomainEvent, version=2, case="camel", rename={"event_version": "v"}):
    street_name: str


@dataclass(frozen=True, kw_only=True)
class VersionAsField(FamilyEvent):
    event_version: int = 3


@dataclass(frozen=True)
class Homemade:
    """An event that is not derived from DomainEvent."""

    event_id: UUID
    occurred_at: datetime
    point: Point


@dataclass(frozen=True, kw_only=True)
class Computed(DomainEvent):
    net: Decimal
    gross: Decimal = field(init=False)
    rate: InitVar[Decimal] = Decimal("1.2")

    def __post_init__(self, rate: Decimal) -> None:
        object.__setattr__(self, "gross", self.net * rate)


@pydantic_dataclass(frozen=True, kw_only=True)
class Validated(DomainEvent):
    amount: int = Field(ge=1)


@dataclass(frozen=True, kw_only=True)
class Deep(DomainEvent):
    node: Node
    rest: Any


def nodes(depth: int) -> Node:
    node = Node("leaf")
    for _ in range(depth):
        node = Node("branch", (node,))
    return node


@dataclass(frozen=True, kw_only=True)
class MovedBefore(DomainEvent, name="class.upcast"):
    address: str
    removed: int = 5


@dataclass(frozen=True, kw_only=True)
class MovedNow(DomainEvent, name="class.upcast", version=3):
    street: str
    country: str
    added: tuple[str, ...] = ("default",)


def upcasting() -> EventRegistry:
    registry = EventRegistry()

    @registry.upcasts(MovedNow, version=1)
    def split_address(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "street": payload["address"].split(",")[0]}

    @registry.upcasts(MovedNow, version=2)
    def assume_country(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "country": "AT"}

    return registry


CASES: list[Case] = [
    case("event", AccountOpened(account_id=event_id("account"), note="new", **stamp("event"))),
    case("slotted_event", SlottedOpened(account_id=5, **stamp("slotted_event"))),
    case("qualified_name", QualifiedOpened(account_id=5, **stamp("qualified_name"))),
    case(
        "camel_case_and_rename",
        MemberInvited(
            member_bag=Bag([Money(Decimal("1.0"))], {Point(1, 2): None}),
            invited_by="Ann",
            _private_note="kept",
            **stamp("camel_case_and_rename"),
        ),
    ),
    case("version_2", SecondVersion(street="Ring 1", **stamp("version_2"))),
    case("camel_version_2", SecondCamelVersion(street_name="Ring 1", **stamp("camel_version_2"))),
    case("version_as_a_field", VersionAsField(**stamp("version_as_a_field"))),
    case(
        "dataclass_without_a_base",
        Homemade(event_id("dataclass_without_a_base"), MOMENT, Point(1, 2)),
    ),
    case(
        "field_that_init_computes",
        Computed(net=Decimal("10.0"), rate=Decimal(2), **stamp("field_that_init_computes")),
    ),
    case("pydantic_dataclass", Validated(amount=5, **stamp("pydantic_dataclass"))),
    case("deep_event", Deep(node=nodes(40), rest=lists(60, "leaf"), **stamp("deep_event"))),
    case(
        "upcast_from_version_1",
        MovedBefore(address="Ring 1, Wien", **stamp("upcast_from_version_1")),
        MovedNow(street="Ring 1", country="AT", **stamp("upcast_from_version_1")),
        upcasting(),
    ),
    case(
        "untyped",
        UntypedEvent(
            event_type="parcel.sent",
            event_version=2,
            aggregate_type="parcel",
            aggregate_id=7,
            payload={"zeta": [1, 2.5, None, True, {"a": "b"}], "event_version": "mine"},
            **stamp("untyped"),
        ),
    ),
]
