"""The log lines about records that were not delivered: in full, then counted."""

import logging
from datetime import timedelta

import pytest

from postroom.relay.refusal_log import FULL_LINES, MINUTE, MOST_LINES, RefusalLog
from postroom.store.base import Attempt, Verdict
from tests.unit.relay.records import record


def attempt(
    verdict: Verdict = Verdict.RETRY,
    *,
    event_type: str = "order.placed",
    reason: str | None = "no route",
    error: BaseException | None = None,
) -> Attempt:
    held = record(1, "7", event_type=event_type, aggregate_type="order")
    held.seconds = 1.23456
    delay = timedelta(seconds=5)
    values = {"verdict": verdict, "reason": reason, "retry_count": 4, "delay": delay}
    return Attempt(record=held, error=error, **values)  # type: ignore[arg-type]


def lines(caplog: pytest.LogCaptureFixture, words: str) -> list[logging.LogRecord]:
    return [each for each in caplog.records if words in each.getMessage()]


LIMIT = "it was found at its limit"
LINES = [
    (Verdict.FAILED, "no route", logging.CRITICAL, ["gave up on order.placed", "(attempt 4)"]),
    (Verdict.FAILED, None, logging.CRITICAL, ["gave up on order.placed", LIMIT]),
    (Verdict.RETRY, "no route", logging.ERROR, ["was refused (attempt 4)", "next try in 5 s"]),
    (Verdict.POSTPONED, "no route", logging.DEBUG, ["is postponed", "next try in 5 s"]),
]


@pytest.mark.requirement("E8")
@pytest.mark.parametrize(("verdict", "reason", "level", "words"), LINES)
def test_a_line_about_a_record_has_a_level_and_fields(
    caplog: pytest.LogCaptureFixture,
    verdict: Verdict,
    reason: str | None,
    level: int,
    words: list[str],
) -> None:
    one, log = attempt(verdict, reason=reason), RefusalLog()
    with caplog.at_level(logging.DEBUG, "postroom.relay"):
        log.add(one, 0.0)
        log.summarize(MINUTE)  # nothing was left out
    [line] = caplog.records
    assert line.levelno == level
    for word in [*words, reason or LIMIT]:
        assert word in line.getMessage()
    expected = {
        "record_id": str(one.record.record.id),
        "event_type": "order.placed",
        "key": "order/7",
        "attempt": 4,
        "partition": 1,
        "duration": 1.235,
        "retry_in": None if verdict is Verdict.FAILED else 5.0,
    }
    assert {name: vars(line)[name] for name in expected} == expected


def test_the_traceback_of_an_error_is_part_of_the_line(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("card expired")
    RefusalLog().add(attempt(error=error), 0.0)
    [line] = caplog.records
    assert line.exc_info is not None
    assert line.exc_info[1] is error


# -- many at once


@pytest.mark.requirement("E8")
def test_of_many_refusals_the_first_are_logged_in_full_and_the_rest_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = RefusalLog()
    for number in range(1000):
        log.add(attempt(), number / 1000)
    assert len(lines(caplog, "was refused")) == FULL_LINES[Verdict.RETRY] == 10
    log.add(attempt(event_type="order.paid"), 1.0)  # has lines of its own
    log.add(attempt(error=KeyError("new")), 1.0)
    assert len(lines(caplog, "was refused")) == FULL_LINES[Verdict.RETRY] + 2
    assert lines(caplog, "more records") == []
    log.end_minute(MINUTE)
    [line] = lines(caplog, "more records")
    assert line.levelno == logging.ERROR
    assert "990 more records were refused in 60 s (990 order.placed)" in line.getMessage()
    assert "postroom status" in line.getMessage()
    assert vars(line)["records"] == 990


@pytest.mark.requirement("A13")
def test_no_failed_record_is_missing_in_the_count(caplog: pytest.LogCaptureFixture) -> None:
    log = RefusalLog()
    for _ in range(350):
        log.add(attempt(Verdict.FAILED), 0.0)
    log.summarize(1.0)
    in_full = lines(caplog, "gave up on order.placed")
    [summary] = lines(caplog, "more records")
    assert {line.levelno for line in (*in_full, summary)} == {logging.CRITICAL}
    assert "gave up on 250 more records in 1 s" in summary.getMessage()
    assert "postroom failures" in summary.getMessage()
    assert len(in_full) + vars(summary)["records"] == 350


def test_the_lines_are_bounded_with_any_number_of_event_types(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = RefusalLog()
    for number in range(2 * MOST_LINES):
        log.add(attempt(event_type=f"type.{number}"), 0.0)
    log.summarize(MINUTE)
    assert len(lines(caplog, "was refused")) == MOST_LINES
    [summary] = lines(caplog, "more records")
    assert f"{MOST_LINES} more records" in summary.getMessage()
    assert f"{MOST_LINES - 5} more event types" in summary.getMessage()


def test_the_next_minute_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    log = RefusalLog()
    for now in (0.0, MINUTE, 2 * MINUTE):
        for _ in range(20):
            log.add(attempt(), now)
    assert len(lines(caplog, "was refused")) == 30
    assert [vars(line)["records"] for line in lines(caplog, "more records")] == [10, 10]
