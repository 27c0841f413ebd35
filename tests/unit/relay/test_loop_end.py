"""The end of a loop: when everything is delivered, or when it is told to stop."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from postroom.errors import OutageError
from postroom.publishers.base import Refused
from postroom.record import ClaimedRecord
from postroom.relay.retry import RetrySchedule
from tests.unit.relay.bench import Bench
from tests.unit.relay.fake_publisher import Answer, delivers_all
from tests.unit.relay.fake_store import lock_timeout, refused_connection
from tests.unit.relay.hand_clock import START
from tests.unit.relay.settings import SECOND


async def test_a_drain_ends_when_everything_is_delivered() -> None:
    bench = Bench(drain=True)
    await bench.loop.run()
    assert bench.store.names == ["poll", "release"]  # there is nothing
    bench = Bench(drain=True)
    bench.store.put(*range(1, 101), key="a")
    for number in range(200, 300):
        bench.store.put(number, partition=number % 7)
    await bench.loop.run()
    assert (bench.store.rows, bench.tally.delivered) == ({}, 200)
    assert bench.store.names[-2:] == ["poll", "release"]
    assert bench.clock.now == START


async def test_a_drain_does_not_wait_for_a_record_that_is_tried_again_later() -> None:
    bench = Bench(drain=True, retry=RetrySchedule.seconds(60))
    bench.store.put(1)
    bench.publisher.reply = lambda records: [Refused("no route")]
    await bench.loop.run()
    assert (bench.publisher.sent, set(bench.store.rows)) == ([1], {1})
    assert bench.clock.now < START + 2


async def test_a_drain_tries_again_at_once_what_its_schedule_says() -> None:
    bench = Bench(drain=True, retry=RetrySchedule.seconds(0, 0, 60))
    bench.store.put(1, 2, key="a")
    bench.publisher.reply = lambda records: (
        [Refused("no route")] if len(bench.publisher.calls) < 3 else delivers_all(records)
    )
    await bench.loop.run()
    assert (bench.publisher.sent, bench.store.rows) == ([1, 1, 1, 2], {})


async def test_a_drain_waits_for_other_workers_until_their_leases_would_have_ended() -> None:
    bench = Bench(drain=True, lease=10 * SECOND)
    bench.store.put(1)
    bench.store.others = {1}
    await bench.loop.run()
    assert 15 <= bench.clock.now - START < 15.2
    assert bench.publisher.sent == []


async def test_a_drain_takes_over_what_others_release() -> None:
    bench = Bench(drain=True)
    bench.store.put(1)
    bench.store.others = {1}
    bench.clock.at(3, bench.store.others.clear)
    await bench.loop.run()
    assert bench.publisher.sent == [1]


async def test_a_drain_raises_an_outage_of_the_publisher() -> None:
    bench = Bench(drain=True)
    bench.store.put(1, 2)

    def reply(records: Sequence[ClaimedRecord]) -> Sequence[Answer]:
        if records[0].position == 2:
            raise OutageError("the broker is away")
        return delivers_all(records)

    bench.publisher.reply = reply
    with pytest.raises(OutageError, match="the broker is away"):
        await bench.loop.run()
    assert set(bench.store.rows) == {2}  # what is known is settled
    assert bench.store.names[-1] == "release"


@pytest.mark.parametrize("error", [refused_connection, lock_timeout])
@pytest.mark.parametrize("method", ["poll", "claim", "settle"])
async def test_a_drain_raises_errors_of_the_database(
    method: str, error: Callable[[], Exception]
) -> None:
    bench = Bench(drain=True)
    bench.store.put(1)
    bench.store.fail(method, error)
    with pytest.raises(type(error())):
        await bench.loop.run()


# -- stop


async def test_to_stop_claims_nothing_more_finishes_what_is_in_flight_and_settles_it() -> None:
    bench = Bench(seconds=3)
    bench.store.put(*range(1, 101))
    await bench.run(1)
    assert bench.publisher.sent == [1, 2, 3, 4]
    assert (len(bench.store.rows), bench.clock.now) == (96, START + 3)
    assert bench.between("claim", 1, 4) == 0
    assert bench.store.names[-1] == "release"


async def test_once_told_to_stop_nothing_is_sent_after_an_answer() -> None:
    bench = Bench()
    bench.store.put(1, 2, key="a")
    bench.publisher.reply = None

    def stop_and_answer() -> None:
        bench.loop.stop()
        bench.publisher.deliver(1)

    bench.clock.at(1, stop_and_answer)
    await bench.loop.run()
    assert bench.publisher.sent == [1]


async def test_while_it_stops_the_partitions_of_what_is_in_flight_are_kept() -> None:
    bench = Bench(seconds=5)
    bench.store.put(1, partition=7)
    bench.store.put(*range(11, 31), partition=8)
    await bench.run(0.5)
    polls = [each.values for each in bench.store.named("poll") if 0.5 < each.at < 5]
    assert {each["take"] for each in polls} == {False}
    assert {frozenset(each["busy"]) for each in polls} == {frozenset({7, 8})}


async def test_after_the_grace_period_what_is_in_flight_is_cancelled_and_not_settled() -> None:
    bench = Bench(grace=10.3 * SECOND)
    bench.store.put(1, 2)
    bench.publisher.reply = None
    bench.clock.at(5, lambda: bench.publisher.deliver(1))
    bench.clock.at(6, bench.loop.stop)  # to stop twice does not extend it
    await bench.run(1)
    assert bench.clock.now == START + 11.3
    assert (set(bench.store.rows), bench.publisher.in_flight) == ({2}, [])
    assert bench.store.names[-1] == "release"


async def test_a_cancelled_loop_settles_what_it_knows_and_releases_its_leases() -> None:
    bench = Bench()
    bench.store.put(1)
    bench.publisher.reply = None
    task = asyncio.create_task(bench.loop.run())
    bench.clock.at(0.5, bench.publisher.deliver)
    bench.clock.at(0.5, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.store.names[-2:] == ["settle", "release"]
    assert bench.store.rows == {}


async def test_at_the_end_a_settlement_that_met_a_lock_is_tried_at_once() -> None:
    bench = Bench()
    bench.store.put(1)
    bench.store.fail("settle", lock_timeout)
    task = asyncio.create_task(bench.loop.run())
    bench.clock.at(0.2, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.at(0.2) == ["settle", "release"]
    assert bench.store.rows == {}


async def test_an_answer_during_the_last_settlement_is_settled_too() -> None:
    bench = Bench()
    bench.store.put(1, 2)
    bench.publisher.reply = None
    bench.store.takes["settle"] = 0.2
    task = asyncio.create_task(bench.loop.run())
    bench.clock.at(0.5, lambda: bench.publisher.deliver(1))
    bench.clock.at(0.6, task.cancel)
    bench.clock.at(0.65, lambda: bench.publisher.deliver(2))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.store.rows == {}


async def test_at_the_end_errors_of_the_database_are_logged_and_the_rest_is_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.clock.at(1, lambda: bench.store.fail("release", refused_connection))
    await bench.run(2)
    assert "leases are left to run out: [Errno 111] Connect call failed" in caplog.text
