"""What becomes of a record: when it is tried again, and when it fails."""

from datetime import timedelta

import pytest

from postroom.publishers.base import DELIVERED, Outcome, Postponed, Refused
from postroom.relay.outcomes import (
    MOST_RETRIES,
    decide,
    refusal_before_delivery,
    settlement_of,
)
from postroom.relay.retry import RetrySchedule
from postroom.relay.settings import OnFailed
from postroom.store.base import Attempt, HeldRecord, Verdict
from tests.unit.relay.records import positions, record
from tests.unit.relay.settings import relay_settings

POLL = timedelta(seconds=7)
BACKOFF = [0, 1, 2, 5, 15, 60, 300, 900]


def refuse(
    schedule: RetrySchedule,
    *,
    count: int = 0,
    limit: int | None = None,
    permanent: bool = False,
    on_failed: OnFailed = "hold",
) -> Attempt:
    refused = Refused("no route", permanent=permanent)
    one = record(1, "a", retry_count=count, max_retries=limit)
    settings = relay_settings(retry=schedule, poll_interval=POLL, on_failed=on_failed)
    return decide(one, refused, settings)


def delays(schedule: RetrySchedule, limit: int | None, most: int = 12) -> list[float | None]:
    """Refuse a record again and again; return the seconds in between, and None where it fails."""
    seconds: list[float | None] = []
    for count in range(most):
        attempt = refuse(schedule, count=count, limit=limit)
        assert attempt.retry_count == count + 1
        if attempt.verdict is Verdict.FAILED:
            return [*seconds, None]
        assert attempt.verdict is Verdict.RETRY
        seconds.append(attempt.delay.total_seconds())
    return seconds


def at_limit(schedule: RetrySchedule, *, count: int, limit: int | None) -> bool:
    """Return whether a record with such a count is found at its limit."""
    one = record(1, retry_count=count, max_retries=limit)
    return refusal_before_delivery(one, schedule) is not None


@pytest.mark.requirement("C11", "C10")
@pytest.mark.parametrize("limit", [None, 10], ids=["no limit of its own", "a limit of 10"])
def test_tiers_are_three_polls_three_half_minutes_three_times_five_minutes_then_failed(
    limit: int | None,
) -> None:
    expected = [7, 7, 7, 30, 30, 30, 300, 300, 300, None]
    assert delays(RetrySchedule.tiers(), limit) == expected


@pytest.mark.requirement("D7")
def test_backoff_grows_to_a_quarter_of_an_hour_and_goes_on_for_ever() -> None:
    assert delays(RetrySchedule.backoff(), None, most=10) == [*BACKOFF, 900, 900]
    assert refuse(RetrySchedule.backoff(), count=1_000_000).delay == timedelta(seconds=900)


@pytest.mark.requirement("A12", "A13")
def test_polls_go_on_until_the_record_s_own_limit() -> None:
    assert delays(RetrySchedule.polls(), 4) == [7, 7, 7, None]
    assert delays(RetrySchedule.polls(), None, most=50) == [7] * 50


def test_a_record_s_own_limit_wins_over_the_end_of_the_schedule_either_way() -> None:
    assert delays(RetrySchedule.backoff(), 3) == [0, 1, None]
    assert delays(RetrySchedule.seconds(1, 2), 1) == [None]
    assert delays(RetrySchedule.seconds(1, 2), 5) == [1, 2, 2, 2, None]


@pytest.mark.parametrize("limit", [0, 1, -1, -(2**31)])
def test_a_limit_below_one_still_gives_one_attempt(limit: int) -> None:
    assert not at_limit(RetrySchedule.polls(), count=0, limit=limit)
    assert delays(RetrySchedule.polls(), limit) == [None]


def test_a_permanent_refusal_fails_at_once_and_holds_its_key_if_so_set() -> None:
    backoff = RetrySchedule.backoff()
    assert refuse(backoff, on_failed="continue").blocks_key
    assert not refuse(backoff, permanent=True, on_failed="continue").blocks_key
    attempt = refuse(backoff, permanent=True, on_failed="hold")
    assert attempt.blocks_key
    assert (attempt.verdict, attempt.delay) == (Verdict.FAILED, timedelta())
    assert (attempt.retry_count, attempt.reason) == (1, "no route")


@pytest.mark.parametrize("on_failed", ["hold", "continue"])
def test_a_postponed_record_waits_half_a_minute_blocks_its_key_and_counts_no_attempt(
    on_failed: OnFailed,
) -> None:
    one = record(1, "a", retry_count=9, max_retries=10)
    outcome = Postponed("its queue is full", timedelta(seconds=2))
    attempt = decide(one, outcome, relay_settings(on_failed=on_failed))
    assert (attempt.verdict, attempt.delay) == (Verdict.POSTPONED, timedelta(seconds=2))
    assert Postponed("its queue is full").delay == timedelta(seconds=30)
    assert (attempt.retry_count, attempt.reason) == (9, "its queue is full")
    assert attempt.blocks_key


@pytest.mark.parametrize(("found", "counted"), [(-7, 1), (0, 1), (41, 42), (MOST_RETRIES,) * 2])
def test_a_count_that_was_edited_to_rubbish_stays_within_its_column(
    found: int, counted: int
) -> None:
    assert refuse(RetrySchedule.backoff(), count=found).retry_count == counted


@pytest.mark.requirement("A13")
def test_a_record_found_at_its_limit_is_not_sent() -> None:
    polls, tiers = RetrySchedule.polls(), RetrySchedule.tiers()
    assert at_limit(polls, count=10, limit=10)
    assert not at_limit(polls, count=9, limit=10)
    assert at_limit(tiers, count=10, limit=None)
    assert not at_limit(polls, count=10**6, limit=None)


def test_a_record_found_at_its_limit_fails_without_a_further_attempt_or_reason() -> None:
    one = record(1, "a", retry_count=10, max_retries=10)
    refused = refusal_before_delivery(one, relay_settings().retry)
    assert refused == Refused("it was found at its limit", permanent=True)
    attempt = decide(one, refused, relay_settings())
    assert (attempt.verdict, attempt.retry_count) == (Verdict.FAILED, 10)
    assert attempt.reason is None  # what the row says of it stays


@pytest.mark.requirement("C13")
@pytest.mark.parametrize("end", [1, 4, 10, 12])
def test_a_schedule_may_end_elsewhere_for_records_without_a_limit_of_their_own(end: int) -> None:
    tiers = [7, 7, 7, 30, 30, 30, 300, 300, 300, 300, 300]
    expected = [*tiers[: end - 1], None]
    assert delays(RetrySchedule.tiers().ending_after(end), None) == expected


def test_a_records_own_limit_wins_over_another_end() -> None:
    schedule = RetrySchedule.polls().ending_after(3)
    assert delays(schedule, None) == [7, 7, None]
    assert delays(schedule, 2) == [7, None]
    assert delays(schedule, 5) == [7, 7, 7, 7, None]
    assert at_limit(schedule, count=3, limit=None)
    assert not at_limit(schedule, count=3, limit=4)


def test_a_settlement_has_what_was_delivered_and_a_decision_about_the_rest() -> None:
    one, two, three, four = (record(number) for number in range(1, 5))
    outcomes: dict[HeldRecord, Outcome] = {
        one: DELIVERED,
        two: Refused("no route"),
        three: Postponed("its queue is full"),
        four: DELIVERED,
    }
    settlement = settlement_of(outcomes, relay_settings(), "ann")
    assert positions(settlement.delivered) == [1, 4]
    attempts = {each.record: each.verdict for each in settlement.attempts}
    assert attempts == {two: Verdict.RETRY, three: Verdict.POSTPONED}
    assert settlement.slow == []
