"""A relay while operators have paused deliveries."""

import pytest

from postroom.record import Key
from postroom.store.base import Pauses
from tests.unit.relay.bench import Bench
from tests.unit.relay.records import record
from tests.unit.relay.settings import SECOND

EVERYTHING = Pauses(everything=True)


def pause(bench: Bench, at: float, pauses: Pauses) -> None:
    bench.clock.at(at, lambda: setattr(bench.store, "pauses", pauses))


async def test_a_pause_of_everything_ends_deliveries_and_releases_the_leases() -> None:
    bench = Bench(seconds=0.3, max_in_flight=1)
    bench.store.put(*range(1, 21))
    pause(bench, 1.6, EVERYTHING)
    leased: list[set[int]] = []
    bench.clock.at(9, lambda: leased.append(set(bench.store.leased)))
    await bench.run(10)
    assert bench.publisher.sent == list(range(1, 8))  # until the poll after two seconds
    assert sorted(bench.store.rows) == list(range(8, 21))
    assert leased == [set()]


async def test_deliveries_resume_at_the_next_poll(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.store.pauses = EVERYTHING
    bench.store.put(1, 2)
    pause(bench, 3.5, Pauses())
    await bench.run(3)
    assert bench.publisher.sent == []
    bench = Bench(clock=bench.clock, store=bench.store)
    await bench.run(6)
    assert bench.publisher.sent == [1, 2]
    said = [each.message for each in caplog.records if "deliveries are" in each.message]
    assert said == [
        "postroom: deliveries are paused by an operator",
        "postroom: deliveries are paused by an operator",
        "postroom: deliveries are resumed",
    ]


async def test_a_pause_of_everything_costs_a_poll_a_second_at_most() -> None:
    bench = Bench(poll_interval=30 * SECOND)
    bench.store.pauses = EVERYTHING
    bench.store.put(*range(1, 10))
    await bench.run(60)
    assert set(bench.store.names) == {"poll", "release"}
    assert len(bench.store.named("poll")) <= 62


@pytest.mark.parametrize(
    "pauses",
    [Pauses(event_types=frozenset({"paused"})), Pauses(keys=frozenset({Key("", "a")}))],
    ids=["an event type", "a key"],
)
async def test_what_is_held_of_a_paused_type_or_key_is_not_sent(pauses: Pauses) -> None:
    bench = Bench(seconds=1.0, max_in_flight=1)
    bench.store.put(1, 3, key="a")
    bench.store.put(2, 4, key="b")
    bench.store.rows[3] = bench.store.rows[3]._replace(event_type="paused")
    pause(bench, 0.5, pauses)
    await bench.run(10)
    assert bench.publisher.sent == [1, 2, 4]


def test_a_record_without_a_key_is_in_no_paused_key() -> None:
    pauses = Pauses(keys=frozenset())
    assert not pauses.hold(record(1))
    assert not pauses
