"""Unions: told apart by shape, or refused."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest

from postroom.events.codec import Unfit, codec_for, same


class Level(IntEnum):
    HIGH = 1


class Sizes(Enum):
    INT = 1
    FLOAT = 1.5


@dataclass(frozen=True)
class Card:
    number: str
    by: Literal["card", "credit_card"] = "card"


@dataclass(frozen=True)
class Cash:
    by: Literal["cash"] = "cash"


@dataclass(frozen=True)
class Voucher:
    code: str = ""


class TypeAliasStatement:
    """Stands for `type X = …` of Python 3.12, which may name itself."""

    def __init__(self, value: Callable[[Any], Any]) -> None:
        self.value = value

    @property
    def __value__(self) -> Any:
        return self.value(self)


def _tree(itself: Any) -> Any:
    branches: Any = list
    return int | branches[Annotated[itself, "a branch"]] | dict[str, Any]


TypeAliasStatement.__name__ = "TypeAliasType"


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    ("tp", "value", "json"),
    [
        (bool | int | float | str, True, True),
        (bool | int | float | str, 1, 1),
        (bool | int | float | str, 1.0, 1.0),
        (float | str, 1e22, 1e22),
        (list[int] | dict[str, int] | str, {"a": 1}, {"a": 1}),
        (Level | float, Level.HIGH, 1),
        (Level | float, 1.5, 1.5),
        (Card | Cash, Card("1", "credit_card"), {"number": "1", "by": "credit_card"}),
        (Literal["a"] | Literal[1] | None, 1, 1),
        (Literal["a", None] | None, None, None),
        (Any | None, [1], [1]),
        (Annotated[int | str, "note"] | None, "x", "x"),
    ],
)
def test_an_arm_is_known_by_its_type_and_by_its_shape(tp: Any, value: Any, json: Any) -> None:
    codec = codec_for(tp)
    assert same(codec.encode(value), json)
    assert same(codec.decode(json), value)


@pytest.mark.parametrize(
    ("tp", "problem"),
    [
        (UUID | str, "is ambiguous: UUID and str are both strings in JSON"),
        (datetime | UUID, "is ambiguous: datetime and UUID are both strings in JSON"),
        (list[int] | tuple[()], "is ambiguous: list[int] and tuple[()] are both arrays in JSON"),
        (Level | int, "is ambiguous: Level and int are both numbers in JSON"),
        (Sizes | int, "is ambiguous: Sizes and int are both numbers in JSON"),
        (Literal["a"] | str, "is ambiguous: Literal['a'] and str are both strings in JSON"),
        (Card | Voucher, "is ambiguous: Card and Voucher are both objects in JSON"),
        (Card | dict[str, str], "is ambiguous: Card and dict[str, str] are both objects in JSON"),
        (Any | UUID, "is ambiguous: str and UUID are both strings in JSON"),
    ],
)  # fmt: skip
def test_arms_that_look_the_same_are_refused_at_definition(tp: Any, problem: str) -> None:
    with pytest.raises(Unfit) as refused:
        codec_for(tp)
    assert refused.value.problem == problem
    assert "two fields" in refused.value.remedy


@pytest.mark.parametrize(
    ("tp", "value", "problem"),
    [
        (UUID | int, "x", "is 'x' (str), not UUID or int"),
        (Card | Cash, Voucher(), "is Voucher(code='') (Voucher), not Card or Cash"),
        (int | float, 1e16, "is 1e+16, which the database gives back as an int"),
        (Level | float, -1e300, "is -1e+300, which the database gives back as an int"),
    ],
)
def test_a_value_of_no_arm_is_refused(tp: Any, value: Any, problem: str) -> None:
    with pytest.raises(Unfit) as refused:
        codec_for(tp).encode(value)
    assert refused.value.problem == problem


@pytest.mark.parametrize(
    ("tp", "json"), [(UUID | int, None), (Card | Cash, {}), (Card | Cash, {"by": "gold"})]
)
def test_a_stored_value_of_no_arm_is_refused(tp: Any, json: Any) -> None:
    with pytest.raises(Unfit, match=r"^is stored as "):
        codec_for(tp).decode(json)


def test_an_int_goes_to_the_float_arm_when_there_is_no_other() -> None:
    assert same(codec_for(float | None).encode(1), 1.0)


@pytest.mark.requirement("A7")
def test_a_type_alias_may_name_itself() -> None:
    codec = codec_for(TypeAliasStatement(_tree))
    tree = [1, [2, [{"a": [3]}]]]
    assert same(codec.decode(codec.encode(tree)), tree)
