"""The loop after crashes: the record that kills the process is found, and no other suffers."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.errors import OutageError
from postroom.record import ClaimedRecord
from postroom.relay.poison import CAREFUL_SECONDS, ONE_BY_ONE_AFTER, QUARANTINED_AFTER
from postroom.store.base import Lease
from tests.unit.relay.fake_publisher import Answer, delivers_all
from tests.unit.relay.fake_store import FakeStore, lock_timeout
from tests.unit.relay.faked_loop import FakedLoop
from tests.unit.relay.hand_clock import HandClock

DEATHS = ONE_BY_ONE_AFTER + QUARANTINED_AFTER


def crashed(faked: FakedLoop, partition: int = 1, **values: Any) -> None:
    """Have the last two holders of a partition dead."""
    lease = Lease(**{"partition": partition, "token": 1, "crash_count": 2} | values)
    faked.store.held_leases[partition] = lease


async def test_after_crashes_a_record_is_written_down_before_it_is_sent() -> None:
    faked = FakedLoop()
    crashed(faked)
    faked.store.put(1, 2)
    faked.store.takes["suspect"] = 0.25
    sent: list[list[int]] = []
    faked.clock.at(0.2, lambda: sent.append(faked.publisher.sent))
    await faked.run(5)
    assert sent == [[]]
    deaths = [each.values["deaths"] for each in faked.store.named("suspect")]
    assert deaths == [{1: 0}, {2: 0}]
    assert faked.publisher.most_in_flight == 1
    assert faked.store.rows == {}


async def test_after_a_while_without_a_death_the_crashes_are_cleared() -> None:
    faked = FakedLoop(seconds=1, max_in_flight=1, batch_size=1)
    crashed(faked)
    faked.store.put(*range(1, 51))
    await faked.run(60)
    [acquitted] = faked.store.named("acquit")
    assert acquitted.values["partitions"] == {1}
    assert acquitted.at == pytest.approx(CAREFUL_SECONDS, abs=2)
    assert faked.publisher.sent == list(range(1, 51))


def suspected(position: int, deaths: int) -> dict[str, Any]:
    """Return what a lease says of its suspect."""
    return {"suspect": UUID(int=position), "suspect_crashes": deaths}


async def test_a_record_that_too_many_died_of_is_quarantined_and_then_tried_alone() -> None:
    faked = FakedLoop(seconds=1, on_failed="continue")
    crashed(faked, crash_count=5, **suspected(2, QUARANTINED_AFTER))
    faked.store.put(1, 2, 3)
    faked.store.put(*range(4, 80), partition=2)
    await faked.run(29)
    assert (faked.store.quarantined, faked.store.failed) == ([2], [])
    assert not {2} & set(faked.publisher.sent)
    faked.store.put(*range(80, 120), partition=2)
    again = FakedLoop(seconds=1, clock=faked.clock, store=faked.store)
    await again.run(90)
    assert [call for call in again.publisher.beside if 2 in call] == [{2}]
    assert 2 not in faked.store.rows
    assert faked.store.quarantined == [2]


async def test_a_record_whose_lease_is_lost_is_not_sent_as_a_suspect() -> None:
    faked = FakedLoop()
    crashed(faked)
    faked.store.put(1)
    faked.store.takes["suspect"] = 0.1
    faked.clock.at(0.05, lambda: crashed(faked, token=2))
    await faked.run(0.5)
    assert faked.publisher.sent == []


async def test_after_crashes_and_an_outage_of_the_publisher_records_are_delivered() -> None:
    faked = FakedLoop()
    crashed(faked)
    faked.store.put(1, 2, 3)
    faked.publisher_opens = False
    faked.publisher_breaker.trip("away")
    faked.clock.at(5, lambda: setattr(faked, "publisher_opens", True))
    await faked.run(60)
    assert min(each.at for each in faked.store.named("suspect")) >= 5
    assert faked.store.rows == {}


async def test_an_outage_while_a_record_waits_to_go_alone_ends() -> None:
    faked = FakedLoop()
    crashed(faked, 1, **suspected(1, 1))
    faked.store.put(11, 12, partition=2)
    faked.publisher.hangs |= {11, 12}
    faked.clock.at(1, lambda: faked.store.put(1, partition=1))
    faked.clock.at(1, faked.loop.wake)
    faked.clock.at(2, faked.publisher.hangs.clear)
    for position in (11, 12):
        faked.clock.at(2, partial(faked.publisher.fail, position, OutageError("away")))
    await faked.run(60)
    assert faked.store.rows == {}


async def test_after_an_outage_a_record_that_was_in_flight_as_a_suspect_is_sent_again() -> None:
    faked = FakedLoop()
    crashed(faked, 1)
    faked.store.put(1, partition=1)
    faked.store.put(11, partition=2)
    faked.publisher.hangs |= {1, 11}
    faked.clock.at(1, faked.publisher.hangs.clear)
    for position in (1, 11):
        faked.clock.at(1, partial(faked.publisher.fail, position, OutageError("away")))
    await faked.run(60)
    assert faked.store.rows == {}


async def deaths_until_done(
    store: FakeStore, *killers: int, seconds: Callable[[], float] = lambda: 0.0, **settings: Any
) -> int:
    """Start a worker again and again, until one has delivered everything; count the deaths."""
    for deaths in range(50):
        faked = FakedLoop(clock=store.clock, store=store, drain=True, **settings)
        faked.publisher.seconds = seconds
        task = asyncio.create_task(faked.loop.run())

        def reply(records: Sequence[ClaimedRecord]) -> Sequence[Answer]:
            if any(each.position in killers for each in records):
                store.go_away()  # as far as this process can see
                task.cancel()  # noqa: B023 - it is called in this turn only
            return delivers_all(records)

        faked.publisher.reply = reply
        with suppress(asyncio.CancelledError):
            await task
        if not store.away:
            return deaths
        store.come_back()
        store.end_leases()
    raise AssertionError("the record that kills is not found")


def outbox_of(count: int, partitions: int) -> FakeStore:
    store = FakeStore(HandClock())
    for position in range(1, count + 1):
        store.put(position, partition=position % partitions)
    return store


@pytest.mark.requirement("E19")
@pytest.mark.parametrize(("partitions", "killer"), [(3, 1), (16, 70), (64, 200)])
async def test_exactly_the_record_that_kills_is_quarantined_within_6_deaths(
    partitions: int, killer: int
) -> None:
    store = outbox_of(200, partitions)
    assert await deaths_until_done(store, killer) <= DEATHS
    assert (store.failed, store.quarantined, list(store.rows)) == ([], [killer], [killer])


@pytest.mark.requirement("E19")
@given(
    killers=st.sets(st.integers(1, 40), min_size=1, max_size=2),  # more clear each other for long
    partitions=st.integers(1, 12),
    max_in_flight=st.integers(1, 8),
    seed=st.integers(0, 2**32),
)
async def test_exactly_the_records_that_kill_are_quarantined_wherever_they_are(
    killers: set[int], partitions: int, max_in_flight: int, seed: int
) -> None:
    """Deliveries take times by chance, so that others are in flight beside the one that kills."""
    store, chance = outbox_of(40, partitions), random.Random(seed)
    deaths = await deaths_until_done(
        store,
        *killers,
        seconds=chance.random,
        max_in_flight=max_in_flight,
    )
    assert (set(store.quarantined), store.failed, set(store.rows)) == (killers, [], killers)
    assert deaths <= len(killers) * 2 * DEATHS  # two may be suspect of the same deaths


async def test_three_records_of_one_partition_that_kill_are_found_within_6_deaths_each() -> None:
    store = outbox_of(40, 1)
    assert await deaths_until_done(store, 5, 20, 35) <= 3 * DEATHS
    assert (store.quarantined, store.failed) == ([5, 20, 35], [])


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_record_that_kills_is_found_behind_deliveries_that_were_not_settled(
    partitions: int,
) -> None:
    store = outbox_of(200, partitions)
    deaths = await deaths_until_done(store, 190, max_in_flight=16, batch_size=100)
    assert store.quarantined == [190]
    assert deaths <= DEATHS


async def test_a_record_whose_delivery_did_not_end_is_alone_in_flight() -> None:
    faked = FakedLoop(seconds=1)
    crashed(faked, 1, **suspected(1, 2))
    faked.store.put(1, partition=1)
    faked.store.put(11, 12, 13, partition=2)
    await faked.run(5)
    assert sorted(faked.publisher.sent) == [1, 11, 12, 13]
    # Whatever kills the process while record 1 is in flight would be held against it.
    in_flight = [call for call in faked.publisher.beside if 1 in call]
    assert in_flight == [{1}]


async def test_a_record_that_goes_alone_waits_for_all_that_is_in_flight() -> None:
    faked = FakedLoop()
    crashed(faked, 1, **suspected(1, 1))
    faked.store.put(11, partition=2)
    faked.publisher.hangs.add(11)
    faked.clock.at(1, lambda: faked.store.put(1, partition=1))
    faked.clock.at(1, lambda: faked.store.put(12, 13, partition=2))
    faked.clock.at(1, faked.loop.wake)
    before: list[int] = []
    faked.clock.at(5, lambda: before.extend(faked.publisher.sent))
    faked.clock.at(5, faked.publisher.deliver)
    await faked.run(10)
    assert before == [11]
    assert faked.publisher.sent[:2] == [11, 1]
    assert faked.store.rows == {}


async def test_the_next_suspect_is_sent_once_the_delivery_of_the_last_is_settled() -> None:
    faked = FakedLoop()
    crashed(faked)
    faked.store.put(1, 2)
    faked.store.fail("settle", lock_timeout, times=2)
    await faked.run(5)
    # If the second kills the process, the first must not be blamed: it was delivered.
    names = [each for each in faked.store.names if each in ("suspect", "settle")]
    assert names == ["suspect", "settle", "settle", "settle", "suspect", "settle"]


@pytest.mark.parametrize("max_in_flight", [1, 4])
async def test_a_backlog_leaves_room_for_partitions_that_go_one_by_one_and_they_for_it(
    max_in_flight: int,
) -> None:
    faked = FakedLoop(seconds=1, max_in_flight=max_in_flight)
    crashed(faked)
    faked.store.put(*range(1, 1000), partition=2)
    faked.store.put(*range(1001, 1100), partition=1)
    await faked.run(20)
    careful = sum(position > 1000 for position in faked.publisher.sent)
    assert careful >= 5
    assert len(faked.publisher.sent) - careful >= 5


async def test_an_orderly_stop_acquits_and_the_end_of_a_drain_does_not() -> None:
    stopped, drained = FakedLoop(), FakedLoop(drain=True)
    await stopped.run(1)
    await drained.loop.run()
    found = [each.store.named("release")[-1].values["acquits"] for each in (stopped, drained)]
    assert found == [True, False]
