"""Values without parts: what they look like in JSON, and what is refused."""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from postroom.events.codec import Unfit, codec_for, same

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
NO_OFFSET = "has a time zone that gives it no UTC offset"
SOME_UUID = UUID("6fa459ea-ee8a-3ca4-894e-db77e160355e")


class Role(StrEnum):
    USER = "user"


class DriverUUID(UUID):
    """As asyncpg has one."""


class NoOffset(tzinfo):
    def utcoffset(self, moment: datetime | None, /) -> None: ...
    def dst(self, moment: datetime | None, /) -> None: ...
    def tzname(self, moment: datetime | None, /) -> None: ...


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    ("tp", "value", "json"),
    [
        (int, 10**4299, 10**4299),
        (datetime, datetime(987, 1, 1), "0987-01-01T00:00:00"),  # noqa: DTZ001
        (datetime, datetime(2024, 5, 1, tzinfo=ZoneInfo("UTC")), "2024-05-01T00:00:00Z"),
        (timedelta, timedelta.min, "-PT86399999913600S"),
    ],
)
def test_an_extreme_value_is_written_in_one_form_and_read_back(
    tp: Any, value: Any, json: Any
) -> None:
    """`stored/types.py` has the usual ones."""
    codec = codec_for(tp)
    assert same(codec.encode(value), json)
    assert same(codec.decode(json), value)


@pytest.mark.parametrize(
    ("tp", "value", "problem"),
    [
        (str, Role.USER, "is <Role.USER: 'user'> (Role), not str"),
        (str, "a\0b", "contains a NUL character, which PostgreSQL cannot hold"),
        (str, "\ud800", "contains a lone surrogate (half a character), which is not text"),
        (int, "x", "is 'x' (str), not int"),
        (int, True, "is True (bool), not int"),
        pytest.param(int, 10**4300, "has more than 4300 digits", id="long"),
        (int, 1.0, "is 1.0 (float), not int"),
        (float, float("nan"), "is NaN, which JSON cannot hold"),
        (float, float("-inf"), "is infinite, which JSON cannot hold"),
        (float, 2**53 + 1, "is 9007199254740993 (int), not float"),
        pytest.param(float, 10**5000, "is a very long int (int), not float", id="huge"),
        (float, True, "is True (bool), not float"),
        (bool, 1, "is 1 (int), not bool"),
        (None, 0, "is 0 (int), not None"),
        (Decimal, Decimal("NaN"), "is NaN, which is not a number"),
        (Decimal, Decimal("-Infinity"), "is -Infinity, which is not a number"),
        (Decimal, 1, "is 1 (int), not Decimal"),
        (UUID, str(SOME_UUID), f"is '{SOME_UUID}' (str), not UUID"),
        (datetime, date(2024, 5, 1), "is datetime.date(2024, 5, 1) (date), not datetime"),
        (date, NOON, f"is {NOON!r} (datetime), not date"),
        (time, time(12, tzinfo=ZoneInfo("Europe/Berlin")), NO_OFFSET),
        (datetime, datetime(2024, 5, 1, tzinfo=NoOffset()), NO_OFFSET),
    ],
)
def test_what_would_not_come_back_is_refused(tp: Any, value: Any, problem: str) -> None:
    with pytest.raises(Unfit) as refused:
        codec_for(tp).encode(value)
    assert (refused.value.problem, refused.value.path) == (problem, ())
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ("one \ud83d\ude00, for Zo\u00eb", "one \U0001f600, for Zo\u00eb"),  # two halves
        ("a skull: \ud83d\udc80", "a skull: \U0001f480"),
        ("half of it: \ud83d, for Zo\u00eb", "half of it: \ufffd, for Zo\u00eb"),
        (b"Zo\xeb".decode(errors="surrogateescape"), "Zo\u00eb"),  # as os.fsdecode reads Latin-1
    ],
)
def test_the_advice_for_half_a_character_keeps_the_rest_of_the_text(
    text: str, repaired: str
) -> None:
    with pytest.raises(Unfit, match="a lone surrogate") as refused:
        codec_for(str).encode(text)
    advice = re.search(r"text\.encode.*\)", refused.value.remedy)
    assert advice
    assert eval(advice[0], {"text": text}) == repaired  # noqa: S307


OTHER_FORMS: dict[Any, list[Any]] = {
    str: [1],
    int: [1.0, True],
    float: ["1", True, float("nan"), 10**400],
    bool: [0],
    None: [False],
    Decimal: [1.5, "1_000", "NaN", "\u0661", "1E+99999999999999999999"],
    UUID: [SOME_UUID.hex, f"{{{SOME_UUID}}}"],
    bytes: ["aGk", "aGl=", "a_k="],
    date: ["20240501", "2024-13-01", "2024-05-01T00:00:00"],
    time: ["24:00:00", "T12:00:00"],
    datetime: [
        *("2024-05-01", "2024-05-01T12:00", "2024-05-01T12:00:00.1234567"),
        *("2024-W18-3T12:00:00", 1714564800),
    ],
    timedelta: ["P1D", "PT1.0000001S", "PT99999999999999S", "PT999999999999999999S"],
}


@pytest.mark.parametrize(
    ("tp", "json"), [(tp, json) for tp, forms in OTHER_FORMS.items() for json in forms]
)
def test_a_stored_value_of_another_form_is_not_guessed_at(tp: Any, json: Any) -> None:
    with pytest.raises(Unfit, match=r"^is stored as .*, not as ") as refused:
        codec_for(tp).decode(json)
    assert "upcaster" in refused.value.remedy


def test_an_int_is_a_float_when_a_float_holds_it_exactly() -> None:
    assert same(codec_for(float).encode(2**60), 2.0**60)


def test_a_float_that_the_database_wrote_without_an_exponent_is_a_float() -> None:
    assert same(codec_for(float).decode(10**23), 1e23)


class FrozenDate(date):
    """As freezegun has one."""


class FrozenDatetime(datetime):
    """As freezegun has one."""


class Timestamp(datetime):
    """As pandas has one."""

    def isoformat(self, sep: str = "T", timespec: str = "auto") -> str:
        return f"{super().isoformat(sep, 'microseconds')}789"


@pytest.mark.parametrize(
    ("kind", "stand_in", "plain"),
    [
        (datetime, FrozenDatetime(2024, 5, 1, 12, tzinfo=UTC), NOON),
        (date, FrozenDate(2024, 5, 1), date(2024, 5, 1)),
        (UUID, DriverUUID(int=7), UUID(int=7)),
    ],
)
def test_a_stand_in_comes_back_as_the_plain_one(kind: type, stand_in: Any, plain: Any) -> None:
    for tp in (kind, kind | None):
        codec = codec_for(tp)
        back = codec.decode(codec.encode(stand_in))
        assert (type(back), back) == (kind, plain)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(date, FrozenDatetime(2024, 5, 1)), (datetime, Timestamp(2024, 5, 1))],
)
def test_a_subclass_that_says_more_is_refused(kind: type, value: Any) -> None:
    with pytest.raises(Unfit, match=f"not {kind.__name__}"):
        codec_for(kind).encode(value)
