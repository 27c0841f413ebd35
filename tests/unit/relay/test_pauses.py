"""A relay while operators have paused deliveries."""

import pytest

from postroom.record import Key
from postroom.store.base import Pauses
from tests.unit.relay.faked_loop import FakedLoop
from tests.unit.relay.records import record
from tests.unit.relay.settings import SECOND

EVERYTHING = Pauses(everything=True)


def pause(faked: FakedLoop, at: float, pauses: Pauses) -> None:
    faked.clock.at(at, lambda: setattr(faked.store, "pauses", pauses))


async def test_a_pause_of_everything_ends_deliveries_and_releases_the_leases() -> None:
    faked = FakedLoop(seconds=0.3, max_in_flight=1)
    faked.store.put(*range(1, 21))
    pause(faked, 1.6, EVERYTHING)
    leased: list[set[int]] = []
    faked.clock.at(9, lambda: leased.append(set(faked.store.leased)))
    await faked.run(10)
    assert faked.publisher.sent == list(range(1, 8))  # until the poll after two seconds
    assert sorted(faked.store.rows) == list(range(8, 21))
    assert leased == [set()]


async def test_deliveries_resume_at_the_next_poll(caplog: pytest.LogCaptureFixture) -> None:
    faked = FakedLoop()
    faked.store.pauses = EVERYTHING
    faked.store.put(1, 2)
    pause(faked, 3.5, Pauses())
    await faked.run(3)
    assert faked.publisher.sent == []
    faked = FakedLoop(clock=faked.clock, store=faked.store)
    await faked.run(6)
    assert faked.publisher.sent == [1, 2]
    said = [each.message for each in caplog.records if "deliveries are" in each.message]
    assert said == [
        "postroom: deliveries are paused by an operator",
        "postroom: deliveries are paused by an operator",
        "postroom: deliveries are resumed",
    ]


async def test_a_pause_of_everything_costs_a_poll_a_second_at_most() -> None:
    faked = FakedLoop(poll_interval=30 * SECOND)
    faked.store.pauses = EVERYTHING
    faked.store.put(*range(1, 10))
    await faked.run(60)
    assert set(faked.store.names) == {"poll", "release"}
    assert len(faked.store.named("poll")) <= 62


@pytest.mark.parametrize(
    "pauses",
    [Pauses(event_types=frozenset({"paused"})), Pauses(keys=frozenset({Key("", "a")}))],
    ids=["an event type", "a key"],
)
async def test_what_is_held_of_a_paused_type_or_key_is_not_sent(pauses: Pauses) -> None:
    faked = FakedLoop(seconds=1.0, max_in_flight=1)
    faked.store.put(1, 3, key="a")
    faked.store.put(2, 4, key="b")
    faked.store.rows[3] = faked.store.rows[3]._replace(event_type="paused")
    pause(faked, 0.5, pauses)
    await faked.run(10)
    assert faked.publisher.sent == [1, 2, 4]


def test_a_record_without_a_key_is_in_no_paused_key() -> None:
    pauses = Pauses(keys=frozenset())
    assert not pauses.hold(record(1))
    assert not pauses
