"""A relay whose worker an operator drains, and resumes."""

import pytest

from postroom.errors import OutageError
from postroom.store.base import Pauses
from tests.unit.relay.faked_loop import FakedLoop
from tests.unit.relay.hand_clock import START
from tests.unit.relay.settings import SECOND

pytestmark = pytest.mark.requirement("E16")


def drain(faked: FakedLoop, at: float, *, draining: bool = True) -> None:
    """Drain or resume the worker, and wake it as `Operations` does."""

    def change() -> None:
        faked.store.draining = draining
        faked.loop.wake()

    faked.clock.at(at, change)


def drain_lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    lines = [each for each in caplog.records if "this worker" in each.message]
    return [(each.levelname, each.message) for each in lines]


async def test_what_is_in_flight_is_finished_and_nothing_else_is_sent() -> None:
    faked = FakedLoop(seconds=0.3, max_in_flight=1)
    faked.store.put(*range(1, 11))
    drain(faked, 0.7)
    leased: list[set[int]] = []
    faked.clock.at(0.8, lambda: leased.append(set(faked.store.leased)))
    faked.clock.at(2.5, lambda: leased.append(set(faked.store.leased)))
    await faked.run(10)
    assert faked.publisher.sent == [1, 2, 3]  # the third was in flight
    assert sorted(faked.store.rows) == list(range(4, 11))
    assert leased == [{1}, set()]
    assert faked.between("claim", 0.8, 10) == 0


async def test_what_waits_in_the_queue_of_the_worker_is_not_sent() -> None:
    faked = FakedLoop(seconds=0.705, max_in_flight=1)
    faked.store.put(1, 2, 3)
    drain(faked, 0.7)  # there is room for the next record before the next poll
    await faked.run(10)
    assert faked.publisher.sent == [1]


async def test_a_worker_that_is_resumed_delivers_again(caplog: pytest.LogCaptureFixture) -> None:
    faked = FakedLoop(poll_interval=30 * SECOND)
    faked.store.draining = True
    faked.store.put(1, 2)
    drain(faked, 5, draining=False)
    before: list[list[int]] = []
    faked.clock.at(4.9, lambda: before.append(list(faked.publisher.sent)))
    faked.clock.at(5.1, lambda: before.append(list(faked.publisher.sent)))
    await faked.run(6)
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
    faked = FakedLoop()
    faked.store.put(*range(1, 6))
    faked.publisher.reply = None
    faked.publisher_opens = False

    def outage() -> None:
        for position in faked.publisher.in_flight:
            faked.publisher.fail(position, OutageError("the broker is away"))

    faked.clock.at(0.5, outage)
    drain(faked, 1)
    faked.clock.at(20, lambda: setattr(faked, "publisher_opens", True))
    await faked.run(100)
    assert faked.publisher.sent == [1, 2, 3, 4]  # before the outage
    assert faked.publisher_breaker.outage is None


@pytest.mark.parametrize(("draining", "paused"), [(True, False), (False, True)])
async def test_run_once_of_a_drained_worker_or_a_paused_outbox_ends(
    draining: bool, paused: bool
) -> None:
    faked = FakedLoop(drain=True)
    faked.store.draining, faked.store.pauses = draining, Pauses(everything=paused)
    faked.store.put(1, 2)
    await faked.loop.run()
    assert faked.publisher.sent == []
    assert faked.clock.now == START  # and waits for no lease
