"""The loop after crashes: the record that kills the process is found, and no other fails."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.errors import OutageError
from postroom.record import ClaimedRecord
from postroom.relay.poison import ONE_BY_ONE_AFTER
from postroom.store.base import Lease
from tests.unit.relay.fake_publisher import Answer, delivers_all
from tests.unit.relay.fake_store import FakeStore, lock_timeout
from tests.unit.relay.faked_loop import FakedLoop
from tests.unit.relay.hand_clock import HandClock


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
    begun = [each.values["begun"] for each in faked.store.named("suspect")]
    assert begun == [{1: 1}, {2: 1}]
    assert faked.publisher.most_in_flight == 1
    assert faked.store.rows == {}


async def test_after_enough_records_the_crashes_are_cleared() -> None:
    faked = FakedLoop(seconds=0.1, max_in_flight=1, batch_size=1)
    crashed(faked)
    faked.store.put(*range(1, 21))
    await faked.run(10)
    [cleared] = faked.store.named("clear_crashes")
    assert cleared.values["partitions"] == {1}
    assert len(faked.store.named("suspect")) == 16
    assert faked.publisher.sent == list(range(1, 21))


async def test_a_record_whose_delivery_did_not_end_too_often_fails_and_is_not_sent() -> None:
    faked = FakedLoop(max_crashes=3, on_failed="continue")
    crashed(faked, suspect=2, suspect_crashes=3)
    faked.store.put(1, 2, 3)
    await faked.run(5)
    assert (faked.store.failed, sorted(faked.publisher.sent)) == ([2], [1, 3])
    begun = [each.values["begun"] for each in faked.store.named("suspect")]
    assert begun == [{1: 1}, {3: 1}]


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
    crashed(faked, 1, suspect=1, suspect_crashes=1)
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


@pytest.mark.requirement("E1")
@pytest.mark.parametrize(("partitions", "killer"), [(3, 1), (16, 70), (64, 200)])
async def test_exactly_the_record_that_kills_fails_within_5_deaths(
    partitions: int, killer: int
) -> None:
    store = outbox_of(200, partitions)
    assert await deaths_until_done(store, killer) <= 5
    assert (store.failed, store.rows) == ([killer], {})


@pytest.mark.requirement("E1")
@given(
    killers=st.sets(st.integers(1, 40), min_size=1, max_size=3),
    partitions=st.integers(1, 12),
    max_in_flight=st.integers(1, 8),
    max_crashes=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
async def test_exactly_the_records_that_kill_fail_wherever_they_are(
    killers: set[int], partitions: int, max_in_flight: int, max_crashes: int, seed: int
) -> None:
    """Deliveries take times by chance, so that others are in flight beside the one that kills."""
    store, chance = outbox_of(40, partitions), random.Random(seed)
    deaths = await deaths_until_done(
        store,
        *killers,
        seconds=chance.random,
        max_in_flight=max_in_flight,
        max_crashes=max_crashes,
    )
    assert (set(store.failed), store.rows) == (killers, {})
    assert deaths <= len(killers) * (ONE_BY_ONE_AFTER + max_crashes)


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_record_that_kills_is_found_behind_deliveries_that_were_not_settled(
    partitions: int,
) -> None:
    store = outbox_of(200, partitions)
    deaths = await deaths_until_done(store, 190, max_in_flight=16, batch_size=100)
    assert store.failed == [190]
    assert deaths <= 5


async def test_a_record_whose_delivery_did_not_end_is_alone_in_flight() -> None:
    faked = FakedLoop(seconds=1)
    crashed(faked, 1, suspect=1, suspect_crashes=1)
    faked.store.put(1, partition=1)
    faked.store.put(11, 12, 13, partition=2)
    await faked.run(5)
    assert sorted(faked.publisher.sent) == [1, 11, 12, 13]
    # Whatever kills the process while record 1 is in flight would be held against it.
    in_flight = [call for call in faked.publisher.beside if 1 in call]
    assert in_flight == [{1}]


async def test_a_record_that_goes_alone_waits_for_all_that_is_in_flight() -> None:
    faked = FakedLoop()
    crashed(faked, 1, suspect=1, suspect_crashes=1)
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
    faked = FakedLoop(max_crashes=1)
    crashed(faked)
    faked.store.put(1, 2)
    faked.store.fail("settle", lock_timeout, times=2)
    await faked.run(5)
    # If the second kills the process, the first must not be blamed: it was delivered.
    names = [each for each in faked.store.names if each in ("suspect", "settle")]
    assert names == ["suspect", "settle", "settle", "settle", "suspect", "settle"]
