"""The end of a loop: when everything is delivered, or when it is told to stop."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from postroom.errors import OutageError
from postroom.publishers.base import Refused
from postroom.record import ClaimedRecord
from postroom.relay.retry import RetrySchedule
from tests.unit.relay.fake_publisher import Answer, delivers_all
from tests.unit.relay.fake_store import lock_timeout, refused_connection
from tests.unit.relay.faked_loop import FakedLoop
from tests.unit.relay.hand_clock import START
from tests.unit.relay.settings import SECOND


async def test_a_drain_ends_when_everything_is_delivered() -> None:
    faked = FakedLoop(drain=True)
    await faked.loop.run()
    assert faked.store.names == ["poll", "release"]  # there is nothing
    faked = FakedLoop(drain=True)
    faked.store.put(*range(1, 101), key="a")
    for number in range(200, 300):
        faked.store.put(number, partition=number % 7)
    await faked.loop.run()
    assert (faked.store.rows, faked.tally.delivered) == ({}, 200)
    assert faked.store.names[-2:] == ["poll", "release"]
    assert faked.clock.now == START


async def test_a_drain_does_not_wait_for_a_record_that_is_tried_again_later() -> None:
    faked = FakedLoop(drain=True, retry=RetrySchedule.seconds(60))
    faked.store.put(1)
    faked.publisher.reply = lambda records: [Refused("no route")]
    await faked.loop.run()
    assert (faked.publisher.sent, set(faked.store.rows)) == ([1], {1})
    assert faked.clock.now < START + 2


async def test_a_drain_tries_again_at_once_what_its_schedule_says() -> None:
    faked = FakedLoop(drain=True, retry=RetrySchedule.seconds(0, 0, 60))
    faked.store.put(1, 2, key="a")
    faked.publisher.reply = lambda records: (
        [Refused("no route")] if len(faked.publisher.calls) < 3 else delivers_all(records)
    )
    await faked.loop.run()
    assert (faked.publisher.sent, faked.store.rows) == ([1, 1, 1, 2], {})


async def test_a_drain_waits_for_other_workers_until_their_leases_would_have_ended() -> None:
    faked = FakedLoop(drain=True, lease=10 * SECOND)
    faked.store.put(1)
    faked.store.others = {1}
    await faked.loop.run()
    assert 15 <= faked.clock.now - START < 15.2
    assert faked.publisher.sent == []


async def test_a_drain_takes_over_what_others_release() -> None:
    faked = FakedLoop(drain=True)
    faked.store.put(1)
    faked.store.others = {1}
    faked.clock.at(3, faked.store.others.clear)
    await faked.loop.run()
    assert faked.publisher.sent == [1]


async def test_a_drain_raises_an_outage_of_the_publisher() -> None:
    faked = FakedLoop(drain=True)
    faked.store.put(1, 2)

    def reply(records: Sequence[ClaimedRecord]) -> Sequence[Answer]:
        if records[0].position == 2:
            raise OutageError("the broker is away")
        return delivers_all(records)

    faked.publisher.reply = reply
    with pytest.raises(OutageError, match="the broker is away"):
        await faked.loop.run()
    assert set(faked.store.rows) == {2}  # what is known is settled
    assert faked.store.names[-1] == "release"


@pytest.mark.parametrize("error", [refused_connection, lock_timeout])
@pytest.mark.parametrize("method", ["poll", "claim", "settle"])
async def test_a_drain_raises_errors_of_the_database(
    method: str, error: Callable[[], Exception]
) -> None:
    faked = FakedLoop(drain=True)
    faked.store.put(1)
    faked.store.fail(method, error)
    with pytest.raises(type(error())):
        await faked.loop.run()


# -- stop


async def test_to_stop_claims_nothing_more_finishes_what_is_in_flight_and_settles_it() -> None:
    faked = FakedLoop(seconds=3)
    faked.store.put(*range(1, 101))
    await faked.run(1)
    assert faked.publisher.sent == [1, 2, 3, 4]
    assert (len(faked.store.rows), faked.clock.now) == (96, START + 3)
    assert faked.between("claim", 1, 4) == 0
    assert faked.store.names[-1] == "release"


async def test_once_told_to_stop_nothing_is_sent_after_an_answer() -> None:
    faked = FakedLoop()
    faked.store.put(1, 2, key="a")
    faked.publisher.reply = None

    def stop_and_answer() -> None:
        faked.loop.stop()
        faked.publisher.deliver(1)

    faked.clock.at(1, stop_and_answer)
    await faked.loop.run()
    assert faked.publisher.sent == [1]


async def test_while_it_stops_the_partitions_of_what_is_in_flight_are_kept() -> None:
    faked = FakedLoop(seconds=5)
    faked.store.put(1, partition=7)
    faked.store.put(*range(11, 31), partition=8)
    await faked.run(0.5)
    polls = [each.values for each in faked.store.named("poll") if 0.5 < each.at < 5]
    assert {each["take"] for each in polls} == {False}
    assert {frozenset(each["busy"]) for each in polls} == {frozenset({7, 8})}


async def test_after_the_grace_period_what_is_in_flight_is_cancelled_and_not_settled() -> None:
    faked = FakedLoop(grace=10.3 * SECOND)
    faked.store.put(1, 2)
    faked.publisher.reply = None
    faked.clock.at(5, lambda: faked.publisher.deliver(1))
    faked.clock.at(6, faked.loop.stop)  # to stop twice does not extend it
    await faked.run(1)
    assert faked.clock.now == START + 11.3
    assert (set(faked.store.rows), faked.publisher.in_flight) == ({2}, [])
    assert faked.store.names[-1] == "release"


async def test_a_cancelled_loop_settles_what_it_knows_and_releases_its_leases() -> None:
    faked = FakedLoop()
    faked.store.put(1)
    faked.publisher.reply = None
    task = asyncio.create_task(faked.loop.run())
    faked.clock.at(0.5, faked.publisher.deliver)
    faked.clock.at(0.5, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert faked.store.names[-2:] == ["settle", "release"]
    assert faked.store.rows == {}


async def test_at_the_end_a_settlement_that_met_a_lock_is_tried_at_once() -> None:
    faked = FakedLoop()
    faked.store.put(1)
    faked.store.fail("settle", lock_timeout)
    task = asyncio.create_task(faked.loop.run())
    faked.clock.at(0.2, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert faked.at(0.2) == ["settle", "release"]
    assert faked.store.rows == {}


async def test_an_answer_during_the_last_settlement_is_settled_too() -> None:
    faked = FakedLoop()
    faked.store.put(1, 2)
    faked.publisher.reply = None
    faked.store.takes["settle"] = 0.2
    task = asyncio.create_task(faked.loop.run())
    faked.clock.at(0.5, lambda: faked.publisher.deliver(1))
    faked.clock.at(0.6, task.cancel)
    faked.clock.at(0.65, lambda: faked.publisher.deliver(2))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert faked.store.rows == {}


async def test_at_the_end_errors_of_the_database_are_logged_and_the_rest_is_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faked = FakedLoop()
    faked.clock.at(1, lambda: faked.store.fail("release", refused_connection))
    await faked.run(2)
    assert "leases are left to run out: [Errno 111] Connect call failed" in caplog.text
