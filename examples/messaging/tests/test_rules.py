"""Which recurrence rules are accepted, and how much work a hostile one can cause."""

from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest
from dateutil import rrule as dateutil_rrule
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import MOMENTS, at, plan

from messaging.errors import UnprocessableError
from messaging.schedule import PARTS, check_rule

VALUES = st.sampled_from(
    [
        *("0", "1", "-1", "5", "29", "30", "366", "367", "999", "9" * 30, "MO", "-1FR", "53SU"),
        *("1,2,3", "20300101T000000Z", "20300101", "DAILY", "YEARLY", "+", ",", "-"),
    ]
)
NOISE = st.dictionaries(st.sampled_from(PARTS), VALUES, max_size=4)


def test_what_comes_to_pass_in_leap_years_only_is_a_rule() -> None:
    leap = plan("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", at("2027-05-01T12:00Z"))
    leap.check()
    assert leap.next_trigger(at("2027-05-01")) == at("2028-02-29T13:00Z")


@given(text=st.text())
def test_a_text_is_a_rule_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert check_rule(text) == text


@settings(max_examples=60)
@given(start=MOMENTS, noise=NOISE)
def test_whatever_passes_for_a_rule_can_be_asked_for_its_next_time(
    start: datetime, noise: dict[str, str]
) -> None:
    rule = ";".join(f"{name}={value}" for name, value in ({"FREQ": "DAILY"} | noise).items())
    try:
        schedule = plan(check_rule(rule), start)
        schedule.check()
    except (ValueError, UnprocessableError):
        return
    trigger = schedule.next_trigger(start)
    assert trigger is None or trigger >= start


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("FREQ=HOURLY", "FREQ is one of DAILY, WEEKLY, MONTHLY, YEARLY"),
        ("FREQ=DAILY;INTERVAL=1001", "INTERVAL is between 1 and 1000"),
        ("FREQ=DAILY;INTERVAL=-1", "INTERVAL is between 1 and 1000"),
        ("FREQ=DAILY;COUNT=-1", "COUNT is 1 or more"),
        ("FREQ=DAILY;COUNT=0", "no number of a rule is 0"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,0", "no number of a rule is 0"),
        ("FREQ=DAILY;BYHOUR=1", "a rule is like FREQ=WEEKLY;BYDAY=MO,TH"),
        ("FREQ=SECONDLY", "FREQ is one of DAILY, WEEKLY, MONTHLY, YEARLY"),
        ("FREQ=YEARLY;BYEASTER=1", "a rule is like FREQ=WEEKLY;BYDAY=MO,TH"),
        ("FREQ=DAILY;INTERVAL=" + "9" * 30, "INTERVAL is between 1 and 1000"),
        ("FREQ=DAILY;COUNT=" + "1" * 200, "a rule has up to 200 characters"),
        ("FREQ=DAILY;BYDAY=XX", "not a rule of RFC 5545"),
        ("FREQ=DAILY;UNTIL=20270101", "UTC"),
    ],
)
def test_what_is_wrong_with_a_rule_is_told(rule: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_rule(rule)


MANY = ",".join(map(str, range(300, 345)))
HOSTILE = [
    f"FREQ=DAILY;BYSETPOS={MANY}",
    "FREQ=DAILY;BYSETPOS=1",
    f"FREQ=WEEKLY;BYSETPOS={MANY}",
    "FREQ=WEEKLY;BYSETPOS=8",
    "FREQ=MONTHLY;BYSETPOS=-32",
    "FREQ=MONTHLY;BYSETPOS=1,2,3,4,5,6,7,8,9,10,11",
    "FREQ=YEARLY;BYSETPOS=367",
    f"FREQ=YEARLY;BYSETPOS={MANY}",
]


@pytest.mark.parametrize("rule", HOSTILE)
def test_positions_that_no_period_has_are_refused_before_any_search(
    rule: str, periods: list[None]
) -> None:
    assert len(rule) <= 200
    with pytest.raises(ValueError, match=r"(?i)bysetpos"):
        check_rule(rule)
    assert periods == []


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;COUNT=1",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;UNTIL=20300101T000000Z",
        "FREQ=WEEKLY;BYMONTH=4;BYMONTHDAY=31",
        "FREQ=YEARLY;BYYEARDAY=367",
        "FREQ=MONTHLY;BYDAY=53MO",
        "FREQ=YEARLY;BYDAY=53WE,FR;BYMONTH=8,6,-1",
        "FREQ=DAILY;INTERVAL=7;BYDAY=TU",  # the start is a Saturday
        "FREQ=DAILY;BYYEARDAY=-399,-398,-397",
        "FREQ=DAILY;BYWEEKNO=1,2,3;BYMONTH=12;BYMONTHDAY=-32",
        "FREQ=WEEKLY;BYMONTHDAY=31;BYMONTH=2;BYSETPOS=1,2,3,4,5,6,7",
        "FREQ=MONTHLY;BYMONTHDAY=31;BYMONTH=2;BYSETPOS=1,2,3,4,5,6,7,8,9,10",
        "FREQ=YEARLY;BYDAY=MO,TU;BYSETPOS=200,300,301,302",
        "FREQ=MONTHLY;INTERVAL=12;BYMONTH=7",
    ],
)
def test_the_search_for_a_time_that_never_comes_ends_after_two_cycles(
    rule: str, periods: list[None]
) -> None:
    with pytest.raises(UnprocessableError, match="does not come to pass within 28 years"):
        plan(check_rule(rule), at("2027-05-01")).check()
    assert len(periods) <= 57 * 366


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
        "FREQ=DAILY;BYMONTH=5;BYMONTHDAY=1;INTERVAL=999",
        "FREQ=DAILY;BYMONTH=5;BYMONTHDAY=1;COUNT=1",
        "FREQ=DAILY;BYMONTH=5;BYMONTHDAY=1;UNTIL=20280101T000000Z",
    ],
)
def test_the_search_for_a_rare_time_ends(rule: str, periods: list[None]) -> None:
    rare = plan(rule, at("2027-05-01"), zone="UTC")
    rare.check()
    rare.next_trigger(at("2027-05-02"))
    assert len(periods) <= 3 * 57 * 366


@pytest.fixture
def periods(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """The periods (a day, week, month or year) that dateutil has looked at, an item each."""
    looked_at: list[None] = []
    for name in ("ydayset", "mdayset", "wdayset", "ddayset"):
        original = getattr(dateutil_rrule._iterinfo, name)

        def look(self: Any, *date: int, original: Any = original) -> Any:
            looked_at.append(None)
            return original(self, *date)

        monkeypatch.setattr(dateutil_rrule._iterinfo, name, look)
    return looked_at
