"""Counts of what a relay has done, and the event type that is always refused."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from postroom.database.database import HEARTBEAT
from postroom.relay.health import (
    ALL_REFUSED,
    LOG_EVERY,
    REFUSED_FOR,
    REMEMBERED,
    Tally,
)
from postroom.store.base import Attempt, Verdict
from tests.unit.relay.records import record


def attempt(
    verdict: Verdict = Verdict.RETRY,
    *,
    event_type: str = "order.placed",
    reason: str | None = "no route",
    delay: timedelta = timedelta(seconds=5),
) -> Attempt:
    held = record(1, event_type=event_type)
    return Attempt(record=held, verdict=verdict, reason=reason, retry_count=4, delay=delay)


def refuse(tally: Tally, event_type: str, *seconds: float, reason: str | None = "no route") -> None:
    """Refuse a record of an event type at each of these moments, to be tried again at once."""
    at_once = timedelta()
    for now in seconds:
        tally.add_attempt(attempt(event_type=event_type, reason=reason, delay=at_once), now)


def deliver(tally: Tally, event_type: str = "order.placed", *, age: float = 0.0) -> None:
    """Deliver a record that was committed so many seconds ago."""
    created = datetime.now(UTC) - timedelta(seconds=age)
    tally.add_deliveries([record(1, event_type=event_type, created_at=created)], timedelta())


# -- counts


def test_every_verdict_has_a_count_of_its_own() -> None:
    tally = Tally()
    assert str(tally) == "0 delivered, 0 refused, 0 postponed, 0 failed"
    for verdict in [*[Verdict.RETRY] * 3, *[Verdict.POSTPONED] * 2, Verdict.FAILED]:
        tally.add_attempt(attempt(verdict), 0.0)
    deliver(tally)
    assert (tally.delivered, tally.retried, tally.postponed, tally.failed) == (1, 3, 2, 1)
    assert str(tally) == "1 delivered, 3 refused, 2 postponed, 1 failed"


def test_the_longest_time_from_commit_to_delivery_is_kept() -> None:
    tally = Tally()
    for seconds in (5.0, 700.0, 30.0):
        deliver(tally, age=seconds)
    assert tally.oldest == pytest.approx(700, abs=60)
    moved = timedelta(hours=1)  # the clock of a test
    tally.add_deliveries([record(1, created_at=datetime.now(UTC))], moved)
    assert tally.oldest == pytest.approx(3600, abs=60)


# -- a route that is always refused


@pytest.mark.parametrize("reason", ["no queue is bound", None])
def test_a_route_counts_as_refused_on_the_third_refusal_without_a_delivery(
    reason: str | None,
) -> None:
    tally = Tally()
    for event_type in ("order.placed", "order.shipped"):  # they are not added up
        refuse(tally, event_type, 100, 110)
    assert tally.problem(110) is None
    refuse(tally, "order.placed", 120, reason=reason)
    assert ALL_REFUSED == 3
    expected = f"no order.placed record is delivered: {reason or ''}"
    assert tally.problem(130) == (expected, 30)


def test_every_verdict_counts_against_a_route() -> None:
    tally = Tally()
    for now, verdict in zip((100.0, 110.0, 120.0, 130.0), Verdict, strict=True):
        tally.add_attempt(attempt(verdict), now)
    assert tally.problem(120) is not None


def test_refusals_within_a_few_seconds_do_not_count_against_a_route() -> None:
    tally = Tally()
    refuse(tally, "order.placed", *(100 + REFUSED_FOR * number / 10 for number in range(10)))
    assert tally.problem(200) is None
    refuse(tally, "order.placed", 100 + REFUSED_FOR)
    assert tally.problem(200) is not None


@pytest.mark.parametrize("verdict", [Verdict.POSTPONED, Verdict.RETRY])
def test_a_route_whose_records_wait_for_their_next_try_counts_within_two_heartbeats(
    verdict: Verdict,
) -> None:
    tally = Tally()
    for _ in range(ALL_REFUSED):
        tally.add_attempt(attempt(verdict, delay=timedelta(seconds=30)), 100.0)
    assert tally.problem(100 + REFUSED_FOR - 0.1) is None
    assert tally.problem(100 + REFUSED_FOR) is not None
    assert REFUSED_FOR <= 2 * HEARTBEAT


def test_a_delivery_of_its_event_type_clears_a_route() -> None:
    tally = Tally()
    refuse(tally, "order.placed", 100, 110)
    deliver(tally, "order.placed")
    refuse(tally, "order.placed", 120, 130)
    assert tally.problem(130) is None
    refuse(tally, "order.placed", 140)
    deliver(tally, "order.shipped")
    assert tally.problem(140) is not None  # the delivery of another event type does not


def test_a_refusal_is_held_against_its_route_for_five_minutes() -> None:
    tally = Tally()
    refuse(tally, "order.placed", 100, 110, 120)
    assert REMEMBERED == 300
    assert tally.problem(120 + REMEMBERED - 0.1) is not None
    assert tally.problem(120 + REMEMBERED) is None


# -- what is logged


def test_progress_is_logged_once_a_minute_with_what_was_done_in_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tally = Tally()
    with caplog.at_level(logging.INFO, "postroom.relay"):
        tally.log_progress(100)
        deliver(tally)
        deliver(tally, age=3000)
        refuse(tally, "order.placed", 110)
        tally.log_progress(100 + LOG_EVERY - 0.1)
        assert caplog.messages == []
        tally.log_progress(100 + LOG_EVERY)
        deliver(tally)
        tally.add_attempt(attempt(Verdict.POSTPONED), 170)
        tally.log_progress(100 + 2 * LOG_EVERY)
    assert len(caplog.messages) == 2
    assert "2 delivered, 1 refused, 0 postponed in 60 s, oldest took 30" in caplog.messages[0]
    assert "1 delivered, 0 refused, 1 postponed in 60 s" in caplog.messages[1]
    assert "oldest took 30" not in caplog.messages[1]  # that was in the minute before


@pytest.mark.parametrize(("busy", "lines"), [(False, 0), (True, 2)])
def test_a_minute_in_which_nothing_was_done_is_logged_if_there_was_work(
    caplog: pytest.LogCaptureFixture, busy: bool, lines: int
) -> None:
    tally = Tally()
    with caplog.at_level(logging.INFO, "postroom.relay"):
        for minute in range(3):
            tally.log_progress(minute * LOG_EVERY, busy=busy)
    assert len(caplog.messages) == lines
