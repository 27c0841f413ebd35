"""One event per way to use pydantic."""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar
from uuid import UUID

from pydantic import AnyUrl, BaseModel, ConfigDict, Field, RootModel, computed_field
from typing_extensions import TypedDict

from postroom import DomainEvent
from postroom.integrations.pydantic import PydanticEvent
from tests.unit.events.stored.cases import MOMENT, Case, case, event_id, stamp

T = TypeVar("T")


class Plan(Enum):
    FREE = "free"


class Price(BaseModel):
    net_amount: Decimal
    currency: str = "EUR"


class Position(NamedTuple):
    x: int
    y: Decimal


class Address(TypedDict):
    street: str
    since: date


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    loud: bool


class Page(BaseModel, Generic[T]):
    items: list[T]


Numbers = RootModel[list[int]]


class Opened(PydanticEvent, aggregate="ticket", key="number"):
    number: int
    price: Price
    plan: Plan
    position: Position
    address: Address
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    page: Page[date]
    numbers: Numbers
    ratio: float
    url: AnyUrl
    waits: timedelta
    data: bytes
    tags: frozenset[str]
    by_id: dict[UUID, int]
    one: OrderedDict[str, int]
    rest: Any = None


class Aliased(PydanticEvent):
    ticket_id: int = Field(alias="id")


class Camel(PydanticEvent, version=2, case="camel", rename={"occurred_at": "occurredOn"}):
    starts_on: date
    net_price: Price


class Extra(PydanticEvent):
    model_config = ConfigDict(extra="allow")
    number: int


class SecondExtra(PydanticEvent, version=2):
    model_config = ConfigDict(extra="allow")
    number: int


class Strict(PydanticEvent):
    model_config = ConfigDict(extra="forbid", strict=True)
    number: int
    ticket: UUID

    @computed_field  # type: ignore[prop-decorator]
    @property
    def doubled(self) -> int:
        return 2 * self.number


class SecondStrict(PydanticEvent, version=2, case="camel"):
    model_config = ConfigDict(extra="forbid")
    the_number: int


class Versioned(PydanticEvent):
    model_config = ConfigDict(extra="forbid")
    event_version: int = 3


class HomemadeModel(BaseModel):
    """An event that is not derived from PydanticEvent."""

    event_id: UUID
    occurred_at: datetime


@dataclass(frozen=True, kw_only=True)
class HoldsModels(DomainEvent, case="camel"):
    net_price: Price
    numbers: Numbers
    other_price: Price | None = None


CASES: list[Case] = [
    case(
        "model",
        Opened(
            number=1,
            price=Price(net_amount=Decimal("9.90")),
            plan=Plan.FREE,
            position=Position(1, Decimal("2.0")),
            address={"street": "Ring 1", "since": date(2024, 5, 1)},
            pet=Dog(loud=True),
            page=Page[date](items=[date(2024, 5, 1)]),
            numbers=Numbers([1, 2]),
            ratio=1e22,
            url=AnyUrl("https://example.com/x?y=1"),
            waits=timedelta(days=-1, seconds=1.5),
            data=b"hi",
            tags=frozenset({"a", "b"}),
            by_id={event_id("x"): 1},
            one=OrderedDict(a=1),
            rest={"a": [1, None, "b", {"c": 1.5}]},
            **stamp("model"),
        ),
    ),
    case("model_with_alias", Aliased(id=5, **stamp("model_with_alias"))),
    case(
        "camel_model_version_2",
        Camel(
            starts_on=date(2024, 5, 1),
            net_price=Price(net_amount=Decimal("1.0")),
            **stamp("camel_model_version_2"),
        ),
    ),
    case(
        "model_that_allows_extra_fields",
        Extra(number=1, **stamp("extra") | {"other": [2], "more": {"a": None}}),
    ),
    case(
        "model_version_2_that_allows_extra_fields",
        SecondExtra(number=1, **stamp("extra_2") | {"other": [2]}),
    ),
    case(
        "model_that_forbids_extra_fields",
        Strict(number=1, ticket=event_id("ticket"), **stamp("strict")),
    ),
    case(
        "model_version_2_that_forbids_extra_fields", SecondStrict(the_number=1, **stamp("strict_2"))
    ),
    case("model_with_its_version_as_a_field", Versioned(**stamp("versioned"))),
    case("model_without_a_base", HomemadeModel(event_id=event_id("homemade"), occurred_at=MOMENT)),
    case(
        "dataclass_of_models",
        HoldsModels(
            net_price=Price(net_amount=Decimal("1.0")), numbers=Numbers([3]), **stamp("holds")
        ),
    ),
]
