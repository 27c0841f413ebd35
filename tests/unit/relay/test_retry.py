"""Retry schedules: when a refused record is tried again, and when it fails."""

from datetime import timedelta

import pytest

from postroom.errors import ConfigurationError
from postroom.publishers.base import Refused
from postroom.relay.retry import MOST_RETRIES, RetrySchedule, exhausted, judge
from postroom.store.base import Attempt
from tests.unit.relay.records import record

POLL = timedelta(seconds=7)
BACKOFF = [0, 1, 2, 5, 15, 60, 300, 900]


def refuse(
    schedule: RetrySchedule,
    *,
    count: int = 0,
    limit: int | None = None,
    permanent: bool = False,
    holds_failed: bool = True,
) -> Attempt:
    refused = Refused("no route", permanent=permanent)
    one = record(1, "a", retry_count=count, max_retries=limit)
    return judge(one, refused, schedule, poll_interval=POLL, holds_failed=holds_failed)


def waits(schedule: RetrySchedule, limit: int | None, most: int = 12) -> list[float | None]:
    """Refuse a record again and again; give the seconds in between, and None where it fails."""
    seconds: list[float | None] = []
    for count in range(most):
        delay = refuse(schedule, count=count, limit=limit).delay
        seconds.append(None if delay is None else delay.total_seconds())
        if delay is None:
            break
    return seconds


@pytest.mark.requirement("C11", "C10")
@pytest.mark.parametrize("limit", [None, 10], ids=["no limit of its own", "a limit of 10"])
def test_tiers_are_three_polls_three_half_minutes_three_times_five_minutes_then_failed(
    limit: int | None,
) -> None:
    expected = [7, 7, 7, 30, 30, 30, 300, 300, 300, None]
    assert waits(RetrySchedule.tiers(), limit) == expected


@pytest.mark.requirement("D7")
def test_backoff_grows_to_a_quarter_of_an_hour_and_goes_on_for_ever() -> None:
    assert waits(RetrySchedule.backoff(), None, most=10) == [*BACKOFF, 900, 900]
    assert refuse(RetrySchedule.backoff(), count=1_000_000).delay == timedelta(seconds=900)


def test_backoff_ends_at_the_record_s_own_limit() -> None:
    assert waits(RetrySchedule.backoff(), 3) == [0, 1, None]


@pytest.mark.requirement("A12", "A13")
def test_polls_go_on_until_the_record_s_own_limit() -> None:
    assert waits(RetrySchedule.polls(), 4) == [7, 7, 7, None]
    assert waits(RetrySchedule.polls(), None, most=50) == [7] * 50


def test_a_record_s_own_limit_wins_over_the_end_of_the_schedule_either_way() -> None:
    assert waits(RetrySchedule.seconds(1, 2), 1) == [None]
    assert waits(RetrySchedule.seconds(1, 2), 5) == [1, 2, 2, 2, None]


@pytest.mark.parametrize("limit", [0, 1, -1, -(2**31)])
def test_a_limit_below_one_still_gives_one_attempt(limit: int) -> None:
    one = record(1, retry_count=0, max_retries=limit)
    assert not exhausted(one, RetrySchedule.polls())
    assert waits(RetrySchedule.polls(), limit) == [None]


def test_a_permanent_refusal_fails_at_once() -> None:
    attempt = refuse(RetrySchedule.backoff(), permanent=True)
    assert (attempt.delay, attempt.retry_count, attempt.reason) == (None, 1, "no route")


def test_a_record_that_waits_holds_its_key_whatever_becomes_of_failed_ones() -> None:
    assert refuse(RetrySchedule.backoff(), holds_failed=False).holds
    assert not refuse(RetrySchedule.backoff(), permanent=True, holds_failed=False).holds
    assert refuse(RetrySchedule.backoff(), permanent=True, holds_failed=True).holds


@pytest.mark.parametrize(("found", "counted"), [(-7, 1), (0, 1), (41, 42), (MOST_RETRIES,) * 2])
def test_a_count_that_was_edited_to_rubbish_stays_within_its_column(
    found: int, counted: int
) -> None:
    assert refuse(RetrySchedule.backoff(), count=found).retry_count == counted


@pytest.mark.requirement("A13")
def test_a_record_found_at_its_limit_is_exhausted() -> None:
    polls, tiers = RetrySchedule.polls(), RetrySchedule.tiers()
    assert exhausted(record(1, retry_count=10, max_retries=10), polls)
    assert not exhausted(record(1, retry_count=9, max_retries=10), polls)
    assert exhausted(record(1, retry_count=10, max_retries=None), tiers)
    assert not exhausted(record(1, retry_count=10**6, max_retries=None), polls)


@pytest.mark.parametrize("delays", [(), (-1,), (5, None, -0.001)])
def test_a_schedule_without_delays_or_with_negative_ones_is_refused(
    delays: tuple[float | None, ...],
) -> None:
    with pytest.raises(ConfigurationError, match="retry schedule"):
        RetrySchedule.seconds(*delays)


def test_schedules_are_values() -> None:
    assert RetrySchedule.seconds(1, None) == RetrySchedule((timedelta(seconds=1), None))
    assert hash(RetrySchedule.tiers()) == hash(RetrySchedule.tiers())


@pytest.mark.requirement("C13")
@pytest.mark.parametrize("end", [1, 4, 10, 12])
def test_a_schedule_may_end_elsewhere_for_records_without_a_limit_of_their_own(end: int) -> None:
    tiers = [7, 7, 7, 30, 30, 30, 300, 300, 300, 300, 300]
    expected = [*tiers[: end - 1], None]
    assert waits(RetrySchedule.tiers().ending_after(end), None) == expected


def test_a_schedule_that_goes_on_for_ever_can_be_told_to_end() -> None:
    assert waits(RetrySchedule.polls().ending_after(3), None) == [7, 7, None]
    assert waits(RetrySchedule.polls(), None, most=50)[-1] == 7


def test_a_records_own_limit_wins_over_another_end() -> None:
    schedule = RetrySchedule.polls().ending_after(3)
    assert waits(schedule, 2) == [7, None]
    assert waits(schedule, 5) == [7, 7, 7, 7, None]
    assert exhausted(record(1, retry_count=3, max_retries=None), schedule)
    assert not exhausted(record(1, retry_count=3, max_retries=4), schedule)


def test_a_schedule_ends_after_one_refusal_at_least() -> None:
    with pytest.raises(ConfigurationError, match="0 refusals"):
        RetrySchedule.tiers().ending_after(0)
    assert RetrySchedule.tiers().limit(None) == 10
