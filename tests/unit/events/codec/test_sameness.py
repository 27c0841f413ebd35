"""Equality that also compares types."""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from postroom.events.codec import same

BERLIN = ZoneInfo("Europe/Berlin")
SUMMER = timezone(timedelta(hours=2))


@dataclass
class Point:
    x: Any


@dataclass(eq=False)
class Handle:
    x: Any


REPEATED = datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN)
FIXED = datetime(2024, 10, 27, 2, 30, tzinfo=SUMMER)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (REPEATED, FIXED),
        ([REPEATED], [FIXED]),
        ({REPEATED}, {FIXED}),
        ({REPEATED: 1}, {FIXED: 1}),
        (time(1, tzinfo=UTC), time(1, tzinfo=timezone(timedelta(0)))),
        ({1: [2], 3: ()}, {3: (), 1: [2]}),
        (Point({1}), Point({1})),
        (Handle(1), Handle(1)),
        (0.0, -0.0),
    ],
)
def test_these_are_the_same(a: Any, b: Any) -> None:
    assert same(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, True),
        (1, 1.0),
        (Decimal(1), 1),
        ([1], (1,)),
        ([1], [1, 2]),
        ({1}, {True}),
        ({1: 1}, {1: True}),
        ({1: 1}, {True: 1}),
        ({1: 1}, {1: 1, 2: 2}),
        ({Handle(1), Handle(1)}, {Handle(1), Handle(2)}),
        (Point(1), Point(True)),
        (Point(1), Handle(1)),
        (FIXED, FIXED.astimezone(UTC)),
        (FIXED, FIXED.replace(tzinfo=None)),
        (float("nan"), float("nan")),
    ],
)
def test_these_are_not(a: Any, b: Any) -> None:
    assert not same(a, b)
