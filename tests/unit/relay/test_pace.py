"""When a lane polls next."""

from datetime import timedelta

from postroom import RetrySchedule
from postroom.relay.pace import BUSY_POLL, DRAIN_POLL, HUNGRY, WAKE_PAUSE, Pace
from postroom.relay.settings import RelaySettings
from postroom.store.base import Lease, Poll
from postroom.testing import FakeClock

POLL_INTERVAL = 30.0
NOTHING = Poll(leases=(), waiting=0, share=64, next_due=None)
OTHERS_WORK = Poll(leases=(), waiting=3, share=32, next_due=None)
SOME_WORK = Poll(leases=(Lease(partition=1, token=1),), waiting=1, share=64, next_due=None)


def pace(*, drain: bool = False) -> Pace:
    settings = RelaySettings(
        poll_interval=timedelta(seconds=POLL_INTERVAL),
        listen=None,
        batch_size=100,
        lanes=1,
        retry=RetrySchedule.backoff(),
        on_failed="hold",
        lease=timedelta(seconds=30),
        grace=timedelta(seconds=30),
        retention=None,
        max_crashes=3,
    )
    return Pace(settings, FakeClock(), drain=drain)


def polled(pace: Pace, now: float, poll: Poll) -> float:
    """Poll, and give the seconds until the next one."""
    pace.begin(now)
    pace.end(poll, busy=bool(poll.leases))
    return round(pace.next_poll() - now, 6)


def test_with_nothing_to_do_it_polls_once_per_interval() -> None:
    assert polled(pace(), 100, NOTHING) == POLL_INTERVAL


def test_with_work_it_polls_every_second() -> None:
    assert polled(pace(), 100, SOME_WORK) == BUSY_POLL


def test_without_a_share_of_the_work_it_asks_often_for_a_while_and_then_less() -> None:
    lane = pace()

    assert polled(lane, 100, OTHERS_WORK) == DRAIN_POLL
    assert polled(lane, 100 + HUNGRY / 2, OTHERS_WORK) == DRAIN_POLL
    assert polled(lane, 100 + HUNGRY, OTHERS_WORK) == BUSY_POLL


def test_hunger_begins_anew_when_there_was_work_in_between() -> None:
    lane = pace()
    polled(lane, 100, OTHERS_WORK)
    polled(lane, 100 + HUNGRY, SOME_WORK)

    assert polled(lane, 200, OTHERS_WORK) == DRAIN_POLL


def test_what_is_due_sooner_than_the_interval_is_polled_for_in_time() -> None:
    due = Poll(leases=(), waiting=0, share=64, next_due=timedelta(seconds=7))

    assert polled(pace(), 100, due) == 7


def test_a_commit_is_polled_for_at_once_but_not_more_often_than_it_may() -> None:
    lane = pace()
    assert polled(lane, 100, NOTHING) == POLL_INTERVAL

    lane.wake()

    assert lane.next_poll() == 100 + WAKE_PAUSE


def test_a_commit_during_a_poll_is_not_taken_for_one_that_it_has_seen() -> None:
    lane = pace()
    lane.begin(100)
    lane.wake()
    lane.end(NOTHING, busy=False)

    assert lane.next_poll() == 100 + WAKE_PAUSE


def test_a_drain_waits_for_what_others_hold_no_longer_than_for_somebody_who_is_dead() -> None:
    lane = pace(drain=True)

    polled(lane, 100, OTHERS_WORK)
    assert lane.waits_for_others
    polled(lane, 100 + 46, OTHERS_WORK)
    assert not lane.waits_for_others
