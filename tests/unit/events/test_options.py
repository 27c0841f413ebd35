"""Class keywords: how an event class says how it is stored."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from postroom import DomainEvent, EventDefinitionError, serialize_event
from postroom.events.description import describe
from postroom.events.options import EventOptions, event_type_of, event_version_of
from postroom.events.payload import encode_event


@dataclass(frozen=True, kw_only=True)
class Told(
    DomainEvent,
    name="shop.told",
    version=3,
    aggregate="order",
    key="order_id",
    naming="dotted",
    case="camel",
    rename={"order_id": "number"},
):
    order_id: int


@dataclass(frozen=True, kw_only=True)
class ToldAgain(Told):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Slotted(DomainEvent, name="slot.filled", version=2, aggregate="slot", key="slot_id"):
    slot_id: int


@dataclass(frozen=True, kw_only=True)
class Untold(DomainEvent):
    pass


@dataclass(frozen=True, kw_only=True)
class ByAttribute(DomainEvent):
    event_type: ClassVar[str] = "by.attribute"
    event_version: ClassVar[int] = 4
    aggregate_type: ClassVar[str] = "attribute"
    number: int

    @property
    def aggregate_id(self) -> int:
        return self.number * 10


def named(name: str) -> type:
    return type(name, (DomainEvent,), {}, naming="dotted")


def test_a_class_without_keywords_is_stored_under_its_name() -> None:
    assert event_type_of(Untold) == "Untold"
    assert event_version_of(Untold) == 1
    assert EventOptions.of(Untold) == EventOptions()


@pytest.mark.parametrize(("kind", "name"), [(Told, "shop.told"), (ToldAgain, "told.again")])
def test_the_keywords_say_how_an_event_is_stored_and_all_but_the_name_are_inherited(
    kind: type[Told], name: str
) -> None:
    described = describe(kind(order_id=7))
    assert (described.event_type, described.event_version) == (name, 3)
    assert (described.aggregate_type, described.aggregate_id) == ("order", "7")
    assert list(described.payload) == ["eventId", "occurredAt", "number", "eventVersion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refilled(Slotted):
    pass


@pytest.mark.parametrize(("kind", "name"), [(Slotted, "slot.filled"), (Refilled, "Refilled")])
def test_slots_keep_the_keywords(kind: type[Slotted], name: str) -> None:
    """`@dataclass(slots=True)` makes the class a second time, without its keywords."""
    described = describe(kind(slot_id=7))
    assert (described.event_type, described.event_version) == (name, 2)
    assert (described.aggregate_type, described.aggregate_id) == ("slot", "7")
    assert "slot_id" in vars(Slotted)["__slots__"]


def test_a_subclass_overrides_what_it_says_itself() -> None:
    class Louder(Told, version=4, aggregate="parcel"):
        pass

    assert EventOptions.of(Louder) == EventOptions(
        version=4,
        aggregate="parcel",
        key="order_id",
        naming="dotted",
        case="camel",
        rename={"order_id": "number"},
    )
    assert EventOptions.of(Told).version == 3


def test_attributes_and_properties_do_the_same() -> None:
    described = describe(ByAttribute(number=7))
    assert described.event_type == "by.attribute"
    assert described.event_version == 4
    assert (described.aggregate_type, described.aggregate_id) == ("attribute", "70")


def test_an_inherited_attribute_or_a_field_does_not_name_the_class() -> None:
    class Derived(ByAttribute):
        pass

    @dataclass(frozen=True, kw_only=True)
    class Wrapped(DomainEvent):
        event_type: str

    assert [event_type_of(each) for each in (Derived, Wrapped)] == ["Derived", "Wrapped"]


@pytest.mark.requirement("D4")
def test_a_qualified_name_is_the_full_name_of_the_class() -> None:
    class Qualified(DomainEvent, naming="qualified"):
        pass

    assert event_type_of(Qualified) == (
        f"{__name__}.test_a_qualified_name_is_the_full_name_of_the_class.<locals>.Qualified"
    )


@pytest.mark.parametrize(
    ("name", "dotted"),
    [
        ("OrderItemAdded", "order_item.added"),
        ("OrderPlaced", "order.placed"),
        ("Opened", "opened"),
        ("HTTPRequestFailed", "http_request.failed"),
        ("OrderShippedByDHL", "order_shipped_by.dhl"),
        ("Order2Shipped", "order2.shipped"),
        ("order_placed", "order.placed"),
        ("OrderPlacedV2", "order_placed.v2"),
        ("ÉtudeÖffnete", "étude.öffnete"),
        ("注文", "注文"),
    ],
)
def test_a_dotted_name_ends_in_the_verb(name: str, dotted: str) -> None:
    assert event_type_of(named(name)) == dotted


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"agregate": "order"}, r"unknown keyword agregate.*aggregate"),
        ({"nmae": "x", "kye": "y"}, r"unknown keyword kye, nmae"),
        ({"naming": "snake"}, r"naming is 'snake'.*class, qualified, dotted"),
        ({"case": "kebab"}, r"case is 'kebab'.*snake, camel"),
        *(({"version": each}, f"version is {each!r}") for each in (0, -1, "2", None, 1.5, True)),
        *(({"name": each}, f"name is {each!r}") for each in (5, "")),
        ({"aggregate": 5}, r"aggregate is 5"),
        ({"key": 5}, r"key is 5"),
        ({"rename": ["a"]}, r"rename is \['a'\]"),
    ],
)
def test_a_wrong_keyword_is_refused_where_the_class_is_defined(
    keywords: dict[str, Any], error: str
) -> None:
    with pytest.raises(EventDefinitionError, match=rf"Mistaken.*{error}"):
        type("Mistaken", (DomainEvent,), {}, **keywords)


def test_a_key_that_is_no_field_is_refused() -> None:
    class Keyless(DomainEvent, key="nothing"):
        pass

    with pytest.raises(EventDefinitionError, match=r"Keyless has no field `nothing`.*`key`"):
        describe(Keyless())


def test_the_version_is_in_the_payload_from_version_2_on() -> None:
    class First(DomainEvent, version=1):
        pass

    class Second(DomainEvent, version=2):
        pass

    assert "event_version" not in encode_event(First())
    assert encode_event(Second())["event_version"] == 2
    assert '"eventVersion":3' in serialize_event(Told(order_id=1))
