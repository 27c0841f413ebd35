"""A relay whose worker an operator drains, and resumes."""

import pytest

from postroom.errors import OutageError
from postroom.store.base import Pauses
from tests.unit.relay.bench import Bench
from tests.unit.relay.hand_clock import START
from tests.unit.relay.settings import SECOND

pytestmark = pytest.mark.requirement("E16")


def drain(bench: Bench, at: float, *, draining: bool = True) -> None:
    """Drain or resume the worker, and wake it as `Operations` does."""

    def change() -> None:
        bench.store.draining = draining
        bench.loop.wake()

    bench.clock.at(at, change)


def drain_lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    lines = [each for each in caplog.records if "this worker" in each.message]
    return [(each.levelname, each.message) for each in lines]


async def test_what_is_in_flight_is_finished_and_nothing_else_is_sent() -> None:
    bench = Bench(seconds=0.3, max_in_flight=1)
    bench.store.put(*range(1, 11))
    drain(bench, 0.7)
    leased: list[set[int]] = []
    bench.clock.at(0.8, lambda: leased.append(set(bench.store.leased)))
    bench.clock.at(2.5, lambda: leased.append(set(bench.store.leased)))
    await bench.run(10)
    assert bench.publisher.sent == [1, 2, 3]  # the third was in flight
    assert sorted(bench.store.rows) == list(range(4, 11))
    assert leased == [{1}, set()]
    assert bench.between("claim", 0.8, 10) == 0


async def test_what_waits_in_the_queue_of_the_worker_is_not_sent() -> None:
    bench = Bench(seconds=0.705, max_in_flight=1)
    bench.store.put(1, 2, 3)
    drain(bench, 0.7)  # there is room for the next record before the next poll
    await bench.run(10)
    assert bench.publisher.sent == [1]


async def test_a_worker_that_is_resumed_delivers_again(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(poll_interval=30 * SECOND)
    bench.store.draining = True
    bench.store.put(1, 2)
    drain(bench, 5, draining=False)
    before: list[list[int]] = []
    bench.clock.at(4.9, lambda: before.append(list(bench.publisher.sent)))
    bench.clock.at(5.1, lambda: before.append(list(bench.publisher.sent)))
    await bench.run(6)
    assert before == [[], [1, 2]]
    assert drain_lines(caplog) == [
        (
            "WARNING",
            "postroom: an operator drains this worker: it finishes what is in flight, and takes no"
            " more",
        ),
        ("WARNING", "postroom: this worker is resumed, and takes records again"),
    ]


async def test_a_worker_that_is_drained_in_an_outage_of_its_publisher_takes_nothing_after_it() -> (
    None
):
    bench = Bench()
    bench.store.put(*range(1, 6))
    bench.publisher.reply = None
    bench.publisher_opens = False

    def outage() -> None:
        for position in bench.publisher.in_flight:
            bench.publisher.fail(position, OutageError("the broker is away"))

    bench.clock.at(0.5, outage)
    drain(bench, 1)
    bench.clock.at(20, lambda: setattr(bench, "publisher_opens", True))
    await bench.run(100)
    assert bench.publisher.sent == [1, 2, 3, 4]  # before the outage
    assert bench.publisher_breaker.outage is None


@pytest.mark.parametrize(("draining", "paused"), [(True, False), (False, True)])
async def test_run_once_of_a_drained_worker_or_a_paused_outbox_ends(
    draining: bool, paused: bool
) -> None:
    bench = Bench(drain=True)
    bench.store.draining, bench.store.pauses = draining, Pauses(everything=paused)
    bench.store.put(1, 2)
    await bench.loop.run()
    assert bench.publisher.sent == []
    assert bench.clock.now == START  # and waits for no lease
