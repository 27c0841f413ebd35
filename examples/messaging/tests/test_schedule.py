"""When a message is due: never before now, at the same time of the day, and not for ever."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import MOMENTS, VIENNA, at, plan

from messaging.errors import UnprocessableError
from messaging.schedule import Schedule, check_moment, check_timezone

ZONES = st.sampled_from([VIENNA, "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
RULES = st.sampled_from(
    [
        "FREQ=DAILY",
        "FREQ=DAILY;INTERVAL=3",
        "FREQ=WEEKLY;BYDAY=MO,SU",
        "FREQ=MONTHLY",
        "FREQ=YEARLY",
    ]
)


@given(start=MOMENTS, zone=ZONES, rule=RULES, now=MOMENTS)
def test_the_next_time_is_not_over_and_at_the_same_time_of_the_day(
    start: datetime, zone: str, rule: str, now: datetime
) -> None:
    trigger = plan(rule, start, zone).next_trigger(now)
    assert trigger is not None
    assert trigger >= max(now, start)
    wall = start.astimezone(ZoneInfo(zone)).time()
    local = trigger.astimezone(ZoneInfo(zone))
    assert local.time() == wall or skipped(local.replace(hour=wall.hour, minute=wall.minute))


def skipped(local: datetime) -> bool:
    """Tell whether the clocks skip this time, in spring."""
    return local.astimezone(UTC).astimezone(local.tzinfo).time() != local.time()


@pytest.mark.parametrize(
    ("start", "now", "then"),
    [
        ("2027-03-01T09:00", "2027-03-27T09:01", "2027-03-28T09:00"),  # winter, then summer
        ("2027-03-01T09:00", "2027-03-28T09:00", "2027-03-28T09:00"),
        ("2027-10-01T09:00", "2027-10-30T09:01", "2027-10-31T09:00"),  # summer, then winter
        ("2027-03-01T02:30", "2027-03-27T03:00", "2027-03-28T03:30"),  # 02:30 is skipped
    ],
)
def test_nine_o_clock_is_nine_o_clock_in_summer_and_in_winter(
    start: str, now: str, then: str
) -> None:
    daily = plan("FREQ=DAILY", at(start, VIENNA))
    assert daily.next_trigger(at(now, VIENNA)) == at(then, VIENNA)


def test_half_past_two_comes_once_in_the_night_that_has_it_twice() -> None:
    daily = plan("FREQ=DAILY", at("2027-10-01T02:30", VIENNA))
    assert daily.next_trigger(at("2027-10-31T00:00Z")) == at("2027-10-31T00:30Z")
    assert daily.next_trigger(at("2027-10-31T00:31Z")) == at("2027-11-01T01:30Z")


@pytest.mark.parametrize("start", ["2027-05-01T10:00:00.5Z", "2027-10-31T01:30:00Z"])
def test_the_first_time_is_not_missed(start: str) -> None:
    trigger = plan("FREQ=DAILY", at(start)).next_trigger(at("2027-01-01"))
    assert trigger is not None
    assert abs(trigger - at(start)) < timedelta(seconds=1)


def test_a_message_that_does_not_recur_is_due_once() -> None:
    once = plan(None, at("2027-05-01"))
    assert once.next_trigger(at("2027-05-01")) == at("2027-05-01")
    assert once.next_trigger(at("2027-05-01T00:00:01")) is None


@pytest.mark.parametrize("limit", ["COUNT=3", "UNTIL=20270503T120000Z", ""])
def test_a_rule_ends_after_so_many_times_or_at_a_time(limit: str) -> None:
    end = None if limit else at("2027-05-03T12:00Z")
    daily = plan(f"FREQ=DAILY;{limit}".removesuffix(";"), at("2027-05-01T12:00Z"), end=end)
    daily.check()
    assert daily.due(at("2027-05-02T12:01Z")) == at("2027-05-03T12:00Z")
    assert daily.next_trigger(at("2027-05-03T12:01Z")) is None
    with pytest.raises(UnprocessableError, match="the last time is over"):
        daily.due(at("2027-05-03T12:01Z"))


@pytest.mark.parametrize(
    ("rule", "is_recurring", "end", "field"),
    [
        (None, True, None, "is_recurring"),
        ("FREQ=DAILY", False, None, "is_recurring"),
        (None, False, "2027-06-01", "recurrence_end_at"),
        ("FREQ=DAILY", True, "2027-05-01", "recurrence_end_at"),
    ],
)
def test_what_does_not_go_together_is_named(
    rule: str | None, is_recurring: bool, end: str | None, field: str
) -> None:
    schedule = Schedule(
        scheduled_at=at("2027-05-01"),
        timezone="UTC",
        is_recurring=is_recurring,
        recurrence_rule=rule,
        recurrence_end_at=at(end) if end else None,
    )
    with pytest.raises(UnprocessableError) as refused:
        schedule.check()
    assert refused.value.field == field


@pytest.mark.parametrize("start", ["2026-12-31T23:59:59", "2037-01-02"])
def test_a_start_is_not_over_and_not_more_than_ten_years_ahead(start: str) -> None:
    plan(None, at("2027-01-01")).check_start(at("2027-01-01"))
    with pytest.raises(UnprocessableError, match="in the past, or more than ten years ahead"):
        plan(None, at(start)).check_start(at("2027-01-01"))


def test_a_zone_and_a_year_are_those_of_the_calendar() -> None:
    assert check_timezone(VIENNA) == VIENNA
    assert check_moment(at("2027-01-01")) == at("2027-01-01")
    with pytest.raises(ValueError, match="there is no time zone 'Europe/Nowhere'"):
        check_timezone("Europe/Nowhere")
    with pytest.raises(ValueError, match="the year is between 1970 and 2200"):
        check_moment(at("9999-12-31"))
