"""The loop during an outage of the publisher."""

from functools import partial

from postroom.errors import OutageError
from tests.unit.relay.bench import Bench
from tests.unit.relay.settings import SECOND


async def test_during_a_publisher_outage_everything_is_released() -> None:
    bench = Bench()
    bench.store.put(*range(1, 21))
    bench.publisher.reply = None
    bench.publisher_opens = False

    def outage() -> None:
        for position in bench.publisher.in_flight:
            bench.publisher.fail(position, OutageError("the broker is away"))

    bench.clock.at(0.5, outage)
    await bench.run(10)
    assert bench.at(0.5) == ["release"]
    assert [each.values["stays"] for each in bench.store.named("release")] == [True, False]
    assert [bench.between(each, 0.5, 10) for each in ("release", "claim", "poll")] == [1, 0, 0]
    assert bench.publisher.sent == [1, 2, 3, 4]
    assert len(bench.store.rows) == 20


async def test_during_a_publisher_outage_the_partitions_of_what_is_in_flight_are_kept() -> None:
    bench = Bench()
    bench.publisher.reply = None
    bench.publisher_opens = False
    for partition in (1, 2, 3):
        bench.store.put(partition, partition + 100, partition=partition)
    bench.clock.at(0.5, lambda: bench.publisher.fail(1, OutageError("away")))
    bench.clock.at(0.5, lambda: bench.publisher.fail(2, OutageError("away")))
    bench.clock.at(3.5, bench.publisher.deliver)
    await bench.run(10)
    polls = [each for each in bench.store.named("poll") if 0.5 <= each.at <= 3.5]
    assert polls
    # Records 101 and 3 were sent as well; there is room for four.
    assert {each.values["take"] for each in polls} == {False}
    assert {frozenset(each.values["busy"]) for each in polls} == {frozenset({1, 3})}
    assert bench.at(3.5) == ["settle", "release"]


async def test_when_the_publisher_is_back_one_record_is_tried_and_then_all_are_sent() -> None:
    bench = Bench()
    bench.store.put(*range(1, 4))
    bench.publisher.reply = None
    for position in (1, 2, 3):
        bench.clock.at(0.5, partial(bench.publisher.fail, position, OutageError("away")))
    before: list[list[int]] = []
    bench.clock.at(1.4, lambda: before.extend(bench.publisher.calls))
    bench.clock.at(1.5, lambda: bench.publisher.deliver(1))
    await bench.run(2)
    assert before == [[1], [2], [3], [1]]
    assert bench.publisher.calls[4:] == [[2], [3]]


async def test_the_publisher_is_opened_again_though_the_database_is_slower_than_the_pause() -> None:
    bench = Bench()
    bench.store.put(1)
    bench.publisher.reply = None
    bench.store.takes["release"] = 0.7  # longer than the first pause
    bench.clock.at(0.5, lambda: bench.publisher.fail(1, OutageError("away")))
    await bench.run(10)
    assert bench.publisher.sent == [1, 1]


async def test_when_the_publisher_is_back_it_polls_at_once() -> None:
    bench = Bench(poll_interval=1000 * SECOND)
    bench.publisher_opens = False
    bench.clock.at(5, lambda: bench.publisher_breaker.trip("away"))
    bench.clock.at(7, lambda: bench.store.put(1))  # by a process that wakes nobody
    bench.clock.at(8, lambda: setattr(bench, "publisher_opens", True))
    await bench.run(20)
    assert bench.publisher.sent == [1]


async def test_a_publisher_that_opened_counts_as_available_if_there_is_nothing_to_send() -> None:
    bench = Bench()
    bench.publisher_breaker.trip("away")
    await bench.run(2)
    assert bench.publisher_breaker.outage is None
