"""Dataclasses: names, defaults, old payloads, and the types that a field may not have."""

from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field, make_dataclass
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from postroom.events.codec import Unfit, codec_for, json_name
from tests.unit.events.builders import comes_back

T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    held: T


@dataclass(frozen=True, slots=True)
class Slotted:
    first_name: str
    seen: int = field(default=0, init=False)


@dataclass(frozen=True, kw_only=True)
class Line:
    unit_price: int


@dataclass(frozen=True, kw_only=True)
class Order:
    order_id: int
    order_lines: list[Line] = field(default_factory=list)
    by_name: dict[str, int] = field(default_factory=dict)
    kept: ClassVar[int] = 7


@dataclass(frozen=True)
class BigOrder(Order):
    pass


class Forgotten(Order):
    discount: int


class Plain(Order):
    note: ClassVar[str] = ""


@dataclass
class Counter:
    count: int

    def __post_init__(self) -> None:
        self.count += 1


@dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("odd")


@dataclass
class Given:
    value: int
    hint: InitVar[int] = 3


@dataclass
class Needy:
    value: int
    session: InitVar[Any]


@dataclass
class Unresolved:
    fine: int
    broken: "Missing"  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Twins:
    account_id: int
    accountId: int  # noqa: N815


@pytest.mark.requirement("A7")
def test_a_changed_count_and_a_plain_subclass_come_back_as_they_are() -> None:
    assert comes_back(Counter(1))  # its count is 2, and not 3 when it comes back
    assert comes_back(Given(1))
    assert comes_back(Plain(order_id=1))


@pytest.mark.requirement("A7")
def test_a_class_inside_a_function_may_refer_to_itself() -> None:
    @dataclass
    class Local:
        inner: "Local | None" = None

    assert comes_back(Local(Local()))


def test_fields_have_camel_case_names_all_the_way_down_and_keys_do_not() -> None:
    order = Order(order_id=1, order_lines=[Line(unit_price=2)], by_name={"a_b": 3})
    assert codec_for(Order, case="camel").encode(order) == {
        "orderId": 1,
        "orderLines": [{"unitPrice": 2}],
        "byName": {"a_b": 3},
    }
    assert comes_back(order, case="camel")


def test_a_name_that_was_asked_for_wins_over_the_case() -> None:
    order = Order(order_id=1, order_lines=[Line(unit_price=2)])
    names = {"order_id": "ID", "unit_price": "of another class"}
    stored = codec_for(Order, case="camel", rename=names).encode(order)
    assert stored == {"ID": 1, "orderLines": [{"unitPrice": 2}], "byName": {}}
    assert comes_back(order, case="camel", rename=names)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("account_id", "accountId"), ("_private_name", "_privateName"), ("a__b_2_", "aB2_")],
)
def test_a_camel_case_name(name: str, expected: str) -> None:
    assert json_name(name, "camel") == expected
    assert json_name(name, "snake") == name


def test_two_fields_with_one_name_are_refused() -> None:
    assert comes_back(Twins(1, 2))
    asked: list[dict[str, Any]] = [{"case": "camel"}, {"rename": {"account_id": "accountId"}}]
    for options in asked:
        with pytest.raises(Unfit) as refused:
            codec_for(Twins, **options)
        assert refused.value.where == "accountId"
        assert refused.value.problem == "has the name 'accountId' in JSON, and so has `account_id`"


def test_a_subclass_is_not_its_base() -> None:
    holder = make_dataclass("Holder", [("orders", list[Order])])
    with pytest.raises(Unfit) as refused:
        codec_for(holder).encode(holder([BigOrder(order_id=1)]))
    assert refused.value.where == "orders[0]"
    assert refused.value.problem.endswith("(BigOrder), not Order")


def test_a_field_without_a_value_is_refused() -> None:
    slotted = object.__new__(Slotted)
    with pytest.raises(Unfit) as refused:
        codec_for(Slotted).encode(slotted)
    assert (refused.value.where, refused.value.problem) == ("first_name", "has no value")
    assert refused.value.remedy == "Set it when the object is made."


@pytest.mark.parametrize(
    ("tp", "json", "where", "problem"),
    [
        (Order, {}, "order_id", "is missing, and has no default"),
        (Order, {"order_id": 1, "order_lines": [{}]}, "order_lines[0].unit_price",
         "is missing, and has no default"),
        (Order, {"order_id": "1"}, "order_id", "is stored as '1', not as int"),
        (Order, [], "", "is stored as [], not as Order"),
        (Even, {"number": 1}, "", "is stored as {'number': 1}, not as Even accepts it (odd)"),
    ],
)  # fmt: skip
def test_a_payload_that_does_not_fit_is_refused_with_its_place(
    tp: Any, json: Any, where: str, problem: str
) -> None:
    with pytest.raises(Unfit) as refused:
        codec_for(tp).decode(json)
    assert (refused.value.where, refused.value.problem) == (where, problem)


@pytest.mark.parametrize(
    ("tp", "where", "problem"),
    [
        (Needy, "session", "is needed to build Needy, but is no field, and so not stored"),
        (
            Unresolved,
            "broken",
            "has an annotation without a meaning: name 'Missing' is not defined",
        ),
        (Forgotten, "discount", "is no field, since Forgotten itself is not a dataclass"),
        (Box, "held", "uses ~T, which cannot be restored exactly from JSON"),
    ],
)
def test_a_class_that_cannot_be_rebuilt_is_refused_at_definition(
    tp: Any, where: str, problem: str
) -> None:
    with pytest.raises(Unfit) as refused:
        codec_for(tp)
    assert (refused.value.where, refused.value.problem) == (where, problem)
    assert refused.value.remedy


@pytest.mark.parametrize("tp", [Iterable[int], Box[int], T, [int], tuple[int, *tuple[str, ...]]])
def test_a_type_that_cannot_be_restored_is_refused_at_definition(tp: Any) -> None:
    event = make_dataclass("Event", [("fine", int), ("items", list[tp])])
    with pytest.raises(Unfit) as refused:
        codec_for(event)
    assert refused.value.where == "items"


def test_a_codec_is_made_once() -> None:
    assert codec_for(Order, case="camel") is codec_for(Order, case="camel")
    assert codec_for(Order, case="camel") is not codec_for(Order)
