"""Lists, tuples, sets and dicts, and values without a type."""

import typing
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from postroom.events.codec import Unfit, codec_for, plain_json, same

BERLIN = ZoneInfo("Europe/Berlin")
TWINS = "holds two that are equal when they come back"
# Within the hour that Berlin repeats, Python calls the same moment in UTC a different one.
SAME_MOMENT = {
    datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN),
    datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
}


@dataclass(frozen=True, eq=False)
class Handle:
    """Two of them are never equal."""

    name: str = ""


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    ("tp", "value", "json"),
    [
        (dict[int | str | None, int], {1: 1, "1": 2, None: 3}, {"1": 1, '"1"': 2, "null": 3}),
        (dict[float, int], {1e22: 1}, {"1e+22": 1}),
        (tuple, (1, "a"), [1, "a"]),
        (getattr(typing, "List"), ["a"], ["a"]),  # noqa: B009  or ruff makes it `list`
        (getattr(typing, "Tuple"), (1, "a"), [1, "a"]),  # noqa: B009
        (getattr(typing, "Tuple")[()], (), []),  # noqa: B009
        (set, {1}, [1]),
    ],
)
def test_what_is_held_comes_back(tp: Any, value: Any, json: Any) -> None:
    """Types that `stored/types.py` does not have."""
    codec = codec_for(tp)
    assert same(codec.encode(value), json)
    assert same(codec.decode(json), value)


@pytest.mark.parametrize(
    ("tp", "value", "where", "problem"),
    [
        (list[int], (1,), "", "is (1,) (tuple), not list"),
        (list[int], [1, "x"], "[1]", "is 'x' (str), not int"),
        (tuple[int, str], (1,), "", "has 1 items, not 2"),
        (tuple[int, str], (1, 2), "[1]", "is 2 (int), not str"),
        (tuple[()], (1,), "", "has 1 items, not 0"),
        (set[int], frozenset({1}), "", "is frozenset({1}) (frozenset), not set"),
        (Mapping[str, int], Mapping, "", f"is {Mapping!r} (ABCMeta), not dict"),
        (dict[str, list[int]], {"a b": [0, None]}, "['a b'][1]", "is None (NoneType), not int"),
        (dict[str, int], {"a": None}, "a", "is None (NoneType), not int"),
        (dict[float, int], {0.5: 1, float("nan"): 1}, "keys()[1]", "is NaN"),
        (dict[str, int], {"\0": 1}, "keys()[0]", "a NUL"),
        (dict[Handle, int], {Handle(): 1, Handle(): 2}, "", TWINS),
        (set[datetime], SAME_MOMENT, "", TWINS),
        (dict[datetime, int], dict.fromkeys(SAME_MOMENT, 1), "", TWINS),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_place(
    tp: Any, value: Any, where: str, problem: str
) -> None:
    with pytest.raises(Unfit) as refused:
        codec_for(tp).encode(value)
    assert refused.value.where == where
    assert problem in refused.value.problem


@pytest.mark.parametrize(
    ("tp", "json"),
    [
        (list[int], {}),
        (tuple[int, str], [1]),
        (set[int], [1, 1]),
        (set[Any], [[]]),
        (dict[str, int], []),
        (dict[int, int], {"x": 1}),
        (dict[int, int], {"1": 1, " 1": 2}),
    ],
)
def test_a_stored_value_of_another_form_is_refused(tp: Any, json: Any) -> None:
    with pytest.raises(Unfit):
        codec_for(tp).decode(json)


@pytest.mark.parametrize(
    ("payload", "where", "problem"),
    [
        ({"a": [1, {"b": Decimal(1)}]}, "a[1].b", "is Decimal('1') (Decimal), not plain JSON"),
        ({"a": {1: 2}}, "a.keys()[0]", "is 1 (int), not str"),
        ({"a": (1,)}, "a", "is (1,) (tuple), not plain JSON"),
        ({"a": float("inf")}, "a", "is infinite"),
        ({"a": 1e16}, "a", "is 1e+16"),
        ({"a": ["\ud800"]}, "a[0]", "a lone surrogate"),
        ({"a\0": 1}, "keys()[0]", "a NUL"),
        ({"a": 10**4300}, "a", "4300 digits"),
    ],
)  # fmt: skip
def test_an_untyped_payload_is_checked_all_the_way_down(
    payload: Any, where: str, problem: str
) -> None:
    with pytest.raises(Unfit) as refused:
        plain_json(payload)
    assert refused.value.where == where
    assert problem in refused.value.problem


def test_an_untyped_payload_of_what_json_can_hold_is_fit() -> None:
    plain_json({"a": [None, True, 1, 1.5, "x", {"b": []}], "": 9007199254740993})


def test_a_list_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(Unfit) as refused:
        plain_json({"items": endless})
    assert refused.value.problem == "contains itself, or is nested too deeply"
    assert refused.value.where.startswith("items[0][0]")
    assert refused.value.where.endswith("…")
