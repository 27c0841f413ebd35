"""Outages: pause, try again after growing pauses, resume."""

import logging
from collections.abc import Iterator

import pytest

from postroom.relay.breaker import FIRST_PAUSE, JITTER, LONGEST_PAUSE, Breaker
from tests.unit.relay.hand_clock import START, HandClock


class Watched:
    """A breaker, and how often it said that it had changed."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.changes = 0
        self.breaker = Breaker("the broker", self.clock, self._count)

    def _count(self) -> None:
        self.changes += 1

    @property
    def pause(self) -> float:
        return self.breaker.retry_at - self.clock.now

    def try_in_vain(self, reason: str = "still away") -> float:
        """Wait until it may be tried again, and fail; return the next pause."""
        self.clock.now = self.breaker.retry_at
        assert self.breaker.due()
        self.breaker.half_open()
        self.breaker.trip(reason)
        return self.pause


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, "postroom.relay"):
        yield caplog


def levels(log: pytest.LogCaptureFixture) -> list[str]:
    return [each.levelname for each in log.records]


def about(pause: float) -> object:
    """Return what equals a pause from which jitter has taken its part."""
    return pytest.approx(pause * (1 - JITTER / 2), abs=pause * JITTER / 2)


def test_it_begins_closed_and_success_is_no_news(
    watched: Watched, log: pytest.LogCaptureFixture
) -> None:
    assert (watched.breaker.state, watched.breaker.outage) == ("closed", None)
    assert watched.breaker.reason == ""
    assert not watched.breaker.due()
    watched.breaker.half_open()  # there is nothing to try
    watched.breaker.reset()
    assert (watched.breaker.state, watched.changes, log.text) == ("closed", 0, "")


def test_an_outage_opens_it_and_says_what_why_and_for_how_long(
    watched: Watched, log: pytest.LogCaptureFixture
) -> None:
    watched.breaker.trip("connection refused.")
    watched.clock.now += 7
    assert (watched.breaker.state, watched.breaker.reason) == ("open", "connection refused.")
    assert watched.changes == 1
    assert "the broker is unavailable (connection refused). Deliveries are paused" in log.text
    assert f"next try in {watched.breaker.retry_at - START:.1f} s" in log.text
    outages = [watched.breaker.outage]
    watched.try_in_vain("still away")
    outages.append(watched.breaker.outage)
    assert outages == [
        ("the broker is unavailable: connection refused.", 7),
        ("the broker is unavailable: still away", watched.clock.now - START),
    ]


@pytest.mark.requirement("E10")
def test_a_password_in_the_reason_of_an_outage_is_not_shown(
    watched: Watched, log: pytest.LogCaptureFixture
) -> None:
    watched.breaker.trip("amqp://shop:hunter2@mq:5672")
    assert watched.breaker.reason == "amqp://shop:***@mq:5672"
    assert "hunter2" not in log.text


def test_it_is_tried_again_when_it_is_time_and_not_before(watched: Watched) -> None:
    watched.breaker.trip("away")
    assert not watched.breaker.due()
    watched.clock.now = watched.breaker.retry_at
    assert watched.breaker.due()


def test_once_a_connection_is_made_one_delivery_will_tell(watched: Watched) -> None:
    watched.breaker.trip("away")
    watched.breaker.half_open()
    assert (watched.breaker.state, watched.breaker.due(), watched.changes) == (
        "half_open",
        False,
        2,
    )
    assert watched.breaker.outage is not None


def test_many_reports_of_one_outage_do_not_make_the_pause_longer(
    watched: Watched, log: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        watched.breaker.trip("away")
    assert START < watched.breaker.retry_at <= START + FIRST_PAUSE
    assert (watched.changes, levels(log)) == (1, ["WARNING"])


def test_pauses_double_up_to_thirty_seconds(watched: Watched) -> None:
    watched.breaker.trip("away")
    pauses = [watched.pause, *(watched.try_in_vain() for _ in range(12))]
    assert pauses[:6] == [about(FIRST_PAUSE * 2**number) for number in range(6)]
    assert pauses[6:] == [about(LONGEST_PAUSE)] * 7  # jitter does not add up
    assert (FIRST_PAUSE, LONGEST_PAUSE) == (0.5, 30)


def test_a_pause_is_between_four_fifths_and_all_of_its_length_and_differs() -> None:
    pauses = set()
    for _ in range(500):
        watched = Watched()
        watched.breaker.trip("away")
        pauses.add(watched.pause / FIRST_PAUSE)
    assert min(pauses) >= 0.8
    assert max(pauses) <= 1
    assert max(pauses) - min(pauses) > 0.15


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ([""], "W"),  # as of `raise OutageError`
        (["away", "away", "away"], "WII"),
        (["away", "access refused", "access refused", "away"], "WWIW"),
    ],
)
def test_a_reason_is_a_warning_and_its_repetition_is_not(
    watched: Watched, log: pytest.LogCaptureFixture, reasons: list[str], expected: str
) -> None:
    watched.breaker.trip(reasons[0])
    for reason in reasons[1:]:
        watched.try_in_vain(reason)
    assert "".join(level[0] for level in levels(log)) == expected


def test_the_next_outage_begins_with_a_warning_though_its_reason_is_the_same(
    watched: Watched, log: pytest.LogCaptureFixture
) -> None:
    watched.breaker.trip("away")
    watched.breaker.reset()
    log.clear()
    watched.breaker.trip("away")
    assert levels(log) == ["WARNING"]


def test_success_closes_it_and_forgets_the_pauses(
    watched: Watched, log: pytest.LogCaptureFixture
) -> None:
    watched.breaker.trip("away")
    watched.try_in_vain()
    watched.breaker.reset()
    assert (watched.breaker.state, watched.breaker.outage) == ("closed", None)
    assert f"available again after {watched.clock.now - START:.1f} s" in log.text
    watched.breaker.trip("away again")
    assert watched.pause == about(FIRST_PAUSE)
    assert watched.breaker.outage is not None
    assert watched.breaker.outage[1] == 0


def test_a_pause_can_be_ended_which_makes_the_next_one_no_shorter(watched: Watched) -> None:
    watched.breaker.trip("away")
    watched.breaker.retry_now()
    assert (watched.breaker.due(), watched.changes) == (True, 2)
    assert watched.breaker.state == "open"  # until somebody has tried
    assert watched.try_in_vain() == about(2 * FIRST_PAUSE)


@pytest.mark.parametrize("state", ["closed", "half_open"])
def test_there_is_no_pause_to_end_unless_it_is_open(watched: Watched, state: str) -> None:
    if state == "half_open":
        watched.breaker.trip("away")
        watched.breaker.half_open()
    before = watched.changes
    watched.breaker.retry_now()
    assert (watched.breaker.state, watched.changes) == (state, before)
    assert not watched.breaker.due()


def test_an_outage_that_two_have_met_ends_when_both_have_succeeded(
    watched: Watched, log: pytest.LogCaptureFixture
) -> None:
    breaker = watched.breaker
    breaker.trip("disk full", "loop")
    breaker.trip("disk full", "heartbeat")
    breaker.reset("heartbeat")
    assert (breaker.state, breaker.due()) == ("open", True)  # worth a try
    assert not breaker.recovered.is_set()
    breaker.reset("heartbeat")
    states = [breaker.state]
    breaker.reset("loop")
    assert [*states, breaker.state] == ["open", "closed"]
    assert breaker.recovered.is_set()
    assert log.text.count("available again") == 1
