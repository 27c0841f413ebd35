"""What is a rule, and what is not: said at once, whatever somebody sends."""

from contextlib import suppress
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.errors import UnprocessableError
from messaging.schedule import PARTS, check_rule
from tests.examples.messaging.plans import MOMENTS, at, plan

VALUES = st.sampled_from(
    [
        *("0", "1", "-1", "5", "29", "30", "366", "367", "999", "9" * 30, "MO", "-1FR", "53SU"),
        *("1,2,3", "20300101T000000Z", "20300101", "DAILY", "YEARLY", "+", ",", "-"),
    ]
)
NOISE = st.dictionaries(st.sampled_from(PARTS), VALUES, max_size=4)


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
    ],
)
def test_what_never_comes_to_pass_is_refused(rule: str) -> None:
    with pytest.raises(UnprocessableError, match="never comes to pass"):
        plan(rule, at("2027-05-01")).check()


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
        ("FREQ=DAILY;COUNT=" + "1" * 200, "a rule has up to 200 characters"),
        ("FREQ=DAILY;BYDAY=XX", "not a rule of RFC 5545"),
        ("FREQ=DAILY;UNTIL=20270101", "UTC"),
    ],
)
def test_what_is_wrong_with_a_rule_is_told(rule: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_rule(rule)
