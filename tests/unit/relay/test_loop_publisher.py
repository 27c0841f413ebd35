"""The loop during an outage of the publisher."""

from functools import partial

from postroom.errors import OutageError
from tests.unit.relay.faked_loop import FakedLoop
from tests.unit.relay.settings import SECOND


async def test_during_a_publisher_outage_everything_is_released() -> None:
    faked = FakedLoop()
    faked.store.put(*range(1, 21))
    faked.publisher.reply = None
    faked.publisher_opens = False

    def outage() -> None:
        for position in faked.publisher.in_flight:
            faked.publisher.fail(position, OutageError("the broker is away"))

    faked.clock.at(0.5, outage)
    await faked.run(10)
    assert faked.at(0.5) == ["release"]
    assert [each.values["stays"] for each in faked.store.named("release")] == [True, False]
    assert [faked.between(each, 0.5, 10) for each in ("release", "claim", "poll")] == [1, 0, 0]
    assert faked.publisher.sent == [1, 2, 3, 4]
    assert len(faked.store.rows) == 20


async def test_during_a_publisher_outage_the_partitions_of_what_is_in_flight_are_kept() -> None:
    faked = FakedLoop()
    faked.publisher.reply = None
    faked.publisher_opens = False
    for partition in (1, 2, 3):
        faked.store.put(partition, partition + 100, partition=partition)
    faked.clock.at(0.5, lambda: faked.publisher.fail(1, OutageError("away")))
    faked.clock.at(0.5, lambda: faked.publisher.fail(2, OutageError("away")))
    faked.clock.at(3.5, faked.publisher.deliver)
    await faked.run(10)
    polls = [each for each in faked.store.named("poll") if 0.5 <= each.at <= 3.5]
    assert polls
    # Records 101 and 3 were sent as well; there is room for four.
    assert {each.values["take"] for each in polls} == {False}
    assert {frozenset(each.values["busy"]) for each in polls} == {frozenset({1, 3})}
    assert faked.at(3.5) == ["settle", "release"]


async def test_when_the_publisher_is_back_one_record_is_tried_and_then_all_are_sent() -> None:
    faked = FakedLoop()
    faked.store.put(*range(1, 4))
    faked.publisher.reply = None
    for position in (1, 2, 3):
        faked.clock.at(0.5, partial(faked.publisher.fail, position, OutageError("away")))
    before: list[list[int]] = []
    faked.clock.at(1.4, lambda: before.extend(faked.publisher.calls))
    faked.clock.at(1.5, lambda: faked.publisher.deliver(1))
    await faked.run(2)
    assert before == [[1], [2], [3], [1]]
    assert faked.publisher.calls[4:] == [[2], [3]]


async def test_the_publisher_is_opened_again_though_the_database_is_slower_than_the_pause() -> None:
    faked = FakedLoop()
    faked.store.put(1)
    faked.publisher.reply = None
    faked.store.takes["release"] = 0.7  # longer than the first pause
    faked.clock.at(0.5, lambda: faked.publisher.fail(1, OutageError("away")))
    await faked.run(10)
    assert faked.publisher.sent == [1, 1]


async def test_when_the_publisher_is_back_it_polls_at_once() -> None:
    faked = FakedLoop(poll_interval=1000 * SECOND)
    faked.publisher_opens = False
    faked.clock.at(5, lambda: faked.publisher_breaker.trip("away"))
    faked.clock.at(7, lambda: faked.store.put(1))  # by a process that wakes nobody
    faked.clock.at(8, lambda: setattr(faked, "publisher_opens", True))
    await faked.run(20)
    assert faked.publisher.sent == [1]


async def test_a_publisher_that_opened_counts_as_available_if_there_is_nothing_to_send() -> None:
    faked = FakedLoop()
    faked.publisher_breaker.trip("away")
    await faked.run(2)
    assert faked.publisher_breaker.outage is None
