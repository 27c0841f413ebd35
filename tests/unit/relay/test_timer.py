"""When a relay polls next."""

from dataclasses import replace
from datetime import timedelta

import pytest

from postroom.relay.timer import BUSY_POLL, DRAIN_POLL, FIRST_POLLS, WAKE_PAUSE, PollTimer
from postroom.store.base import Lease, Poll
from tests.unit.relay.hand_clock import HandClock
from tests.unit.relay.settings import SECOND, relay_settings

POLL_INTERVAL = 30.0
LEASE = 20.0
NOTHING = Poll()
OTHERS_WORK = Poll(waiting=3, share=32)
SOME_WORK = Poll(leases=(Lease(partition=1, token=1),), waiting=1)


def poll_timer(*, drain: bool = False, clock: HandClock | None = None) -> PollTimer:
    settings = relay_settings(poll_interval=POLL_INTERVAL * SECOND, lease=LEASE * SECOND)
    return PollTimer(settings, clock or HandClock(), drain=drain)


def polled(timer: PollTimer, now: float, poll: Poll) -> float:
    """Poll, and return the seconds until the next poll."""
    timer.begin(now)
    timer.end(poll, busy=bool(poll.leases))
    return round(timer.next_poll - now, 6)


@pytest.mark.parametrize(
    ("poll", "drain"), [(NOTHING, False), (NOTHING, True), (OTHERS_WORK, False)]
)
def test_it_says_when_there_is_nothing_to_do(poll: Poll, drain: bool) -> None:
    timer = poll_timer(drain=drain)
    timer.begin(100)
    assert timer.end(poll, busy=False)
    assert not timer.waits_for_others


def test_with_nothing_to_do_it_polls_at_once_and_then_once_per_interval() -> None:
    timer = poll_timer()
    assert (timer.due(0.0), timer.woken) == (True, False)
    assert polled(timer, 100, NOTHING) == POLL_INTERVAL
    assert not timer.due(100 + POLL_INTERVAL - 0.01)
    assert timer.due(100 + POLL_INTERVAL)


@pytest.mark.parametrize("poll", [SOME_WORK, OTHERS_WORK, replace(SOME_WORK, next_due=7 * SECOND)])
def test_while_there_is_work_anywhere_it_polls_every_second(poll: Poll) -> None:
    timer = poll_timer()
    assert polled(timer, 100, poll) == polled(timer, 200, poll) == BUSY_POLL == 1.0


def test_while_records_are_held_it_polls_every_second() -> None:
    timer = poll_timer()
    timer.begin(100)
    assert not timer.end(NOTHING, busy=True)
    assert timer.next_poll == 101


@pytest.mark.parametrize(
    ("poll", "pauses"),
    [
        (replace(SOME_WORK, share=32), [*FIRST_POLLS, BUSY_POLL, BUSY_POLL]),
        (SOME_WORK, [FIRST_POLLS[0], *[BUSY_POLL] * 4]),
    ],
    ids=["with other workers", "alone"],
)
def test_after_a_commit_has_woken_an_idle_relay_it_polls_soon(
    poll: Poll, pauses: list[float]
) -> None:
    timer = poll_timer()
    polled(timer, 100, NOTHING)
    timer.woken = True
    assert [polled(timer, 200 + each, poll) for each in range(5)] == pytest.approx(pauses)


def test_in_a_quiet_moment_a_poll_comes_a_little_sooner() -> None:
    timer = poll_timer()
    polled(timer, 100, SOME_WORK)
    assert not timer.due(100.7, quiet=True)
    assert timer.due(100.8, quiet=True)
    assert not timer.due(100.8)


@pytest.mark.parametrize("poll_interval", [0.2, 0.9])
def test_an_interval_below_a_second_holds_also_while_there_is_work(poll_interval: float) -> None:
    settings = relay_settings(poll_interval=poll_interval * SECOND)
    timer = PollTimer(settings, HandClock(), drain=False)
    assert polled(timer, 100, SOME_WORK) == poll_interval


@pytest.mark.parametrize(("seconds", "next_poll"), [(7, 7), (0.3, 0.3), (31, POLL_INTERVAL)])
def test_what_is_due_sooner_than_the_interval_is_polled_for_in_time(
    seconds: float, next_poll: float
) -> None:
    due = Poll(next_due=timedelta(seconds=seconds))
    assert polled(poll_timer(), 100, due) == next_poll


def test_a_commit_is_polled_for_at_once_but_not_more_often_than_every_ten_milliseconds() -> None:
    timer = poll_timer()
    assert polled(timer, 100, NOTHING) == POLL_INTERVAL

    timer.woken = True

    assert timer.next_poll == 100 + WAKE_PAUSE == 100.01
    assert (timer.due(100.005), timer.due(100.01)) == (False, True)


def test_many_commits_make_one_poll() -> None:
    timer = poll_timer()
    polled(timer, 100, NOTHING)
    for _ in range(100):
        timer.woken = True

    timer.begin(100.01)
    timer.end(NOTHING, busy=False)

    assert not timer.woken
    assert timer.next_poll == 100.01 + POLL_INTERVAL


def test_a_commit_during_a_poll_is_not_taken_for_one_that_it_has_seen() -> None:
    timer = poll_timer()
    timer.begin(100)
    timer.woken = True
    timer.end(NOTHING, busy=False)

    assert timer.next_poll == 100 + WAKE_PAUSE


def test_a_poll_can_be_asked_for_sooner_but_not_later() -> None:
    timer = poll_timer(clock=(clock := HandClock()))
    polled(timer, clock.now, NOTHING)
    timer.within(5)
    timer.within(10)
    assert timer.next_poll == clock.now + 5
    timer.within(0.005)
    timer.woken = True  # a commit does not put it off
    assert timer.next_poll == clock.now + 0.005
    timer.within(0)
    assert timer.due(clock.now)


def test_a_drain_asks_often_while_others_hold_what_is_left() -> None:
    timer = poll_timer(drain=True)
    assert polled(timer, 100, OTHERS_WORK) == DRAIN_POLL
    assert timer.waits_for_others


def test_a_drain_waits_for_others_for_one_and_a_half_leases_at_most() -> None:
    timer = poll_timer(drain=True)

    polled(timer, 100, OTHERS_WORK)
    polled(timer, 100 + 1.5 * LEASE - 0.1, OTHERS_WORK)
    assert timer.waits_for_others
    timer.begin(100 + 1.5 * LEASE)
    assert timer.end(OTHERS_WORK, busy=False)
    assert not timer.waits_for_others


@pytest.mark.parametrize("poll", [SOME_WORK, NOTHING], ids=["work", "nothing"])
def test_a_drain_waits_as_long_again_for_others_when_there_was_something_else(poll: Poll) -> None:
    timer = poll_timer(drain=True)
    polled(timer, 100, OTHERS_WORK)
    polled(timer, 110, poll)
    assert not timer.waits_for_others

    polled(timer, 200, OTHERS_WORK)
    polled(timer, 200 + 1.5 * LEASE - 0.1, OTHERS_WORK)

    assert timer.waits_for_others
