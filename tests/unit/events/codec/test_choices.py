"""Enums and literals: by value, and refused when JSON cannot tell two of them apart."""

import json
from dataclasses import dataclass
from datetime import date
from enum import CONFORM, Enum, Flag, IntEnum, IntFlag, StrEnum
from typing import Any, Literal
from uuid import UUID

import pytest

from postroom.events.codec import Unfit, codec_for, same


class Colour(Enum):
    RED = "red"
    ROUGE = "red"
    NONE = None


class Size(IntEnum):
    BIG = 10


class Kind(StrEnum):
    A = "a"


class Mixed(Enum):
    PAIR = (1, (UUID(int=1), "x"))
    DAY = date(2024, 5, 1)
    HUGE = 1e23
    YES = True
    MANY = [1, {"deep": [2]}]  # noqa: RUF012


class Permission(Flag):
    READ = 1
    WRITE = 2


class Bits(IntFlag):
    ONE = 1
    FOUR = 4


@dataclass
class Point:
    x: int


class Place(Point, Enum):  # not hashable, as Point is not
    HERE = 1


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    ("member", "expected"),
    [
        (Colour.RED, "red"),
        (Colour.ROUGE, "red"),
        (Colour.NONE, None),
        (Mixed.PAIR, [1, [str(UUID(int=1)), "x"]]),
        (Mixed.DAY, "2024-05-01"),
        (Mixed.HUGE, 1e23),
        (Mixed.YES, True),
        (Mixed.MANY, [1, {"deep": [2]}]),
        (~Permission.READ, 2),
        (Bits(64), 64),
        (Place.HERE, {"x": 1}),
    ],
)
def test_an_enum_is_stored_by_value(member: Any, expected: Any) -> None:
    codec = codec_for(type(member))
    stored = codec.encode(member)
    assert same(stored, expected)
    assert same(codec.decode(json.loads(json.dumps(stored))), member)


def test_a_float_value_that_the_database_wrote_as_an_integer_is_still_the_member() -> None:
    assert codec_for(Mixed).decode(10**23) is Mixed.HUGE


def test_what_is_stored_can_be_changed_without_changing_the_enum() -> None:
    codec_for(Mixed).encode(Mixed.MANY)[1]["deep"].append(3)
    assert codec_for(Mixed).encode(Mixed.MANY) == [1, {"deep": [2]}]


@pytest.mark.parametrize(
    ("tp", "value", "problem"),
    [
        (Colour, "red", "is 'red' (str), not Colour"),
        (Size, 10, "is 10 (int), not Size"),
        (Permission, 1, "is 1 (int), not Permission"),
        (Colour, Kind.A, "is <Kind.A: 'a'> (Kind), not Colour"),
        (Literal[1], True, "is True (bool), not 1"),
        (Literal["a", b"b"], "b", "is 'b' (str), not 'a' or b'b'"),
        (Literal["a"], [], "is [] (list), not 'a'"),
    ],
)
def test_another_value_is_refused(tp: Any, value: Any, problem: str) -> None:
    with pytest.raises(Unfit) as refused:
        codec_for(tp).encode(value)
    assert (refused.value.problem, refused.value.path) == (problem, ())


class Cut(Flag, boundary=CONFORM):
    ONE = 1


@pytest.mark.parametrize(
    ("tp", "json"),
    [
        (Colour, "blue"),
        (Mixed, 1),
        (Permission, 8),
        (Permission, "1"),
        (Cut, 3),
        (Literal[1], True),
    ],
)
def test_a_stored_value_that_is_none_of_them_is_refused(tp: Any, json: Any) -> None:
    with pytest.raises(Unfit, match=r"^is stored as "):
        codec_for(tp).decode(json)


@pytest.mark.requirement("A7")
@pytest.mark.parametrize("value", [1, True, None, "1", b"1", Size.BIG])
def test_a_literal_keeps_the_type(value: Any) -> None:
    codec = codec_for(Literal[1, True, None, "1", b"1", Size.BIG])
    assert same(codec.decode(codec.encode(value)), value)


class Twins(Enum):
    ID = UUID(int=1)
    TEXT = str(UUID(int=1))


class HugeTwins(Enum):
    FLOAT = 1e23
    INT = 10**23


class Unheld(Enum):
    IT = object()


class Nan(Enum):
    IT = float("nan")


class NoNumber(Flag):
    IT = True


@pytest.mark.parametrize(
    ("tp", "problem"),
    [
        (Twins, r"has <Twins.ID: .*> and <Twins.TEXT: .*>, which look the same in JSON"),
        (HugeTwins, "which look the same in JSON"),
        (Literal[b"hi!", "aGkh"], "has b'hi!' and 'aGkh', which look the same in JSON"),
        (Unheld, "uses Unheld.IT, and its value cannot be stored: it is <object"),
        (Nan, "uses Nan.IT, and its value cannot be stored: it is NaN"),
    ],
)
def test_an_enum_or_literal_that_json_cannot_hold_is_refused_at_definition(
    tp: Any, problem: str
) -> None:
    with pytest.raises(Unfit, match=problem) as refused:
        codec_for(tp)
    assert refused.value.remedy


def test_a_flag_whose_value_is_no_int_is_refused() -> None:
    with pytest.raises(Unfit, match=r"is True \(bool\), not int"):
        codec_for(NoNumber).encode(NoNumber.IT)
