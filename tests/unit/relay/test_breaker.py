"""Outages, and the record that looks like one."""

import asyncio
from datetime import timedelta

import pytest

from postroom.record import ClaimedRecord
from postroom.relay.breaker import FIRST_PAUSE, LONGEST_PAUSE, Breaker, State, Suspicion
from tests.unit.relay.records import record


class HandClock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def shift(self) -> timedelta:
        return timedelta()

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        self.now += seconds


class Watched:
    """A breaker, and how often it said that it had changed."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.changes = 0
        self.breaker = Breaker("the broker", self.clock, self._count)

    def _count(self) -> None:
        self.changes += 1

    def probe_in_vain(self) -> float:
        """Wait until it may be tried again, and find it away; give the next pause."""
        self.clock.now = self.breaker.retry_at
        assert self.breaker.due()
        self.breaker.probe()
        self.breaker.trip("still away")
        return self.breaker.retry_at - self.clock.now


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_it_begins_closed(watched: Watched) -> None:
    assert (watched.breaker.state, watched.breaker.closed) == (State.CLOSED, True)
    assert (watched.breaker.since, watched.breaker.reason) == (None, None)
    assert not watched.breaker.due()


def test_an_outage_opens_it_and_says_why_and_since_when(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.breaker.trip("connection refused")
    assert (watched.breaker.state, watched.breaker.closed) == (State.OPEN, False)
    assert (watched.breaker.since, watched.breaker.reason) == (1000.0, "connection refused")
    assert watched.changes == 1
    assert "the broker cannot be used" in caplog.text
    assert "connection refused" in caplog.text


def test_it_is_tried_again_when_it_is_time_and_not_before(watched: Watched) -> None:
    watched.breaker.trip("away")
    assert not watched.breaker.due()
    watched.clock.now = watched.breaker.retry_at
    assert watched.breaker.due()


def test_once_it_opened_one_delivery_will_tell(watched: Watched) -> None:
    watched.breaker.trip("away")
    watched.breaker.probe()
    assert (watched.breaker.state, watched.breaker.closed) == (State.PROBING, False)
    assert (watched.breaker.due(), watched.changes) == (False, 2)


def test_there_is_nothing_to_try_while_all_is_well(watched: Watched) -> None:
    watched.breaker.probe()
    assert (watched.breaker.state, watched.changes) == (State.CLOSED, 0)


def test_what_it_knows_can_be_forgotten_without_a_word(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.breaker.trip("away")
    caplog.clear()
    watched.breaker.forget()
    assert (watched.breaker.closed, watched.breaker.reason, caplog.text) == (True, None, "")


def test_many_reports_of_one_outage_do_not_make_the_pause_longer(watched: Watched) -> None:
    for _ in range(100):
        watched.breaker.trip("away")
    assert watched.breaker.retry_at == pytest.approx(1000 + FIRST_PAUSE)
    assert watched.changes == 1


def test_pauses_grow_up_to_the_longest(watched: Watched) -> None:
    watched.breaker.trip("away")
    pauses = [watched.probe_in_vain() for _ in range(12)]
    assert pauses[:3] == pytest.approx([2 * FIRST_PAUSE, 4 * FIRST_PAUSE, 8 * FIRST_PAUSE])
    assert pauses == sorted(pauses)
    assert max(pauses) == LONGEST_PAUSE


def test_an_outage_lasts_from_its_first_report(watched: Watched) -> None:
    watched.breaker.trip("away")
    watched.probe_in_vain()
    assert (watched.breaker.since, watched.breaker.reason) == (1000.0, "still away")


def test_success_closes_it_and_forgets_the_pauses(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.breaker.trip("away")
    watched.probe_in_vain()
    watched.breaker.reset()
    assert (watched.breaker.closed, watched.breaker.reason) == (True, None)
    assert "can be used again" in caplog.text
    watched.breaker.trip("away again")
    assert watched.breaker.retry_at - watched.clock.now == pytest.approx(FIRST_PAUSE)


def test_success_while_all_is_well_is_no_news(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.breaker.reset()
    assert (watched.changes, caplog.text) == (0, "")


def die(suspicion: Suspicion, *records: ClaimedRecord) -> list[ClaimedRecord]:
    """Have records die with the connection, while others are answered before."""
    suspicion.answered([record(1000)])
    return suspicion.died(records)


def test_what_dies_with_the_connection_once_goes_out_as_before() -> None:
    suspicion, one = Suspicion(), record(1)
    assert not suspicion
    assert die(suspicion, one) == []
    assert not suspicion.alone(one)
    assert suspicion


def test_what_dies_twice_goes_alone() -> None:
    suspicion, one, other = Suspicion(), record(1), record(2)
    die(suspicion, one, other)
    die(suspicion, one)
    assert (suspicion.alone(one), suspicion.alone(other)) == (True, False)
    assert (suspicion.times(one), suspicion.times(other), suspicion.times(record(3))) == (2, 1, 0)


def test_what_then_dies_alone_twice_is_to_blame() -> None:
    suspicion, one = Suspicion(), record(1)
    assert [die(suspicion, one) for _ in range(4)] == [[], [], [], [one]]
    assert not suspicion  # it has been dealt with
    assert not suspicion.alone(one)


@pytest.mark.requirement("C17")
def test_an_outage_makes_nobody_guilty_however_often_it_is_tried() -> None:
    suspicion, one = Suspicion(), record(1)
    assert [suspicion.died([one]) for _ in range(100)] == [[]] * 100
    assert not suspicion.alone(one)
    assert suspicion.times(one) == 100


def test_an_answer_clears_a_record_and_no_other() -> None:
    suspicion, one, other = Suspicion(), record(1), record(2)
    for _ in range(2):
        die(suspicion, one, other)
    suspicion.answered([one, record(3)])
    assert (suspicion.alone(one), suspicion.alone(other)) == (False, True)


def test_to_ask_about_a_record_is_not_to_suspect_it() -> None:
    suspicion = Suspicion()
    assert not suspicion.alone(record(1))
    assert not suspicion


def test_what_it_remembers_is_bounded() -> None:
    suspicion = Suspicion()
    die(suspicion, *(record(number) for number in range(1, suspicion.REMEMBERED + 3)))
    assert suspicion.times(record(1)) == 0
    assert suspicion.times(record(suspicion.REMEMBERED)) == 1
