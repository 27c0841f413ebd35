"""Where to claim next, how many records, and from which position on."""

import pytest

from postroom.relay.claiming import (
    FEW_KEYS,
    FILLED_FOR,
    LEAST_DEPTH,
    LONGEST_PAUSE,
    OF_A_KEY,
    REREAD_SHARE,
    ClaimPlan,
)
from postroom.relay.leases import HeldLeases
from postroom.store.base import HeldRecord, Lease
from postroom.store.claims import PREPARED
from postroom.store.key_order import KeyOrder
from tests.unit.relay.records import claim, many, record


class Planner:
    """A plan for some leased partitions, at the moment 100."""

    def __init__(self, *partitions: int, capacity: int = 40, batch_size: int = 8) -> None:
        self.order = KeyOrder()
        self.leases = HeldLeases(30.0)
        leases = [Lease(partition=each, token=each * 10) for each in partitions]
        self.leases.polled(leases, asked_at=100.0)
        self.plan = ClaimPlan(
            order=self.order, leases=self.leases, capacity=capacity, batch_size=batch_size
        )
        self.plan.look_into(partitions)

    def claimed(
        self,
        *records: HeldRecord,
        partitions: set[int] | None = None,
        more: set[int] | None = None,
        reached: dict[int, int] | None = None,
        full: bool = True,
        began: float = 100.0,
        ended: float = 100.0,
    ) -> bool:
        """Note a claim; return whether there is nothing to deliver."""
        claimed = {1} if partitions is None else partitions
        self.plan.begin(claimed)
        self.plan.claimed(
            claim(*records, more=more or (), reached=reached),
            claimed,
            full=full,
            began=began,
            ended=ended,
        )
        return self.plan.empty_claims > 0

    def fill(
        self,
        now: float,
        first: int,
        count: int,
        *,
        keys: int = 1,
        partition: int = 1,
        full: bool = True,
    ) -> None:
        """Claim some records of a few keys, which leaves more to claim if the claim is full."""
        numbers = range(first, first + count)
        records = [record(n, f"hot {partition} {n % keys}", partition=partition) for n in numbers]
        more = {partition} if full else set()
        self.claimed(*records, partitions={partition}, more=more, began=now, ended=now)

    def filled(self, now: float) -> list[int]:
        """Return the partitions that a few keys have filled for too long."""
        return sorted({each.partition for each in self.plan.hot_keys(now).values()})


def test_it_claims_from_the_leased_partitions_and_no_others() -> None:
    planner = Planner(1, 2)
    assert planner.plan.partitions(100) == {1: 10, 2: 20}
    planner.plan.look_into([1, 3])
    assert planner.plan.partitions(100) == {1: 10}
    assert planner.plan.partitions(1000) == {}
    planner.leases.limit(1, {1: 0, 2: 1}.__getitem__, now=0)
    assert planner.plan.partitions(100) == {}


def test_a_partition_that_had_no_more_is_not_claimed_from_until_the_next_poll() -> None:
    planner = Planner(1, 2)
    assert planner.plan.floors(100) == {}  # the first claim reads everything
    planner.claimed(*many(3), partitions={1, 2}, more={2})
    assert planner.plan.partitions(100) == {2: 20}
    planner.plan.look_into([1, 2])
    assert set(planner.plan.partitions(100)) == {1, 2}
    planner.claimed(partitions={2})
    assert set(planner.plan.partitions(100)) == {1}  # it keeps the others


@pytest.mark.parametrize(
    ("held", "claims"), [(0, True), (30, True), (31, False), (40, False), (50, False)]
)
def test_while_records_may_be_sent_it_waits_for_room_for_a_batch(held: int, claims: bool) -> None:
    planner = Planner(1)
    planner.claimed(*many(held), more={1})
    assert bool(planner.plan.partitions(100)) is claims


def test_the_half_that_is_furthest_behind_is_claimed_first() -> None:
    planner = Planner(1, 2, 3, 4, capacity=1000)
    assert set(planner.plan.partitions(100)) == {1, 2, 3, 4}  # nothing is known yet
    reached = {1: 900, 2: 100, 3: 500, 4: 700}
    planner.claimed(*many(4), partitions={1, 2, 3, 4}, more={1, 2, 3, 4}, reached=reached)
    assert set(planner.plan.partitions(100)) == {2, 3, 4}
    planner.claimed(partitions={2, 3, 4}, more={2}, reached={2: 950})
    assert set(planner.plan.partitions(100)) == {1, 2}


@pytest.mark.parametrize(("in_flight", "claims"), [(7, True), (8, False)])
def test_with_less_than_a_batch_in_flight_and_no_more_to_send_less_room_is_enough(
    in_flight: int, claims: bool
) -> None:
    planner = Planner(1)
    planner.claimed(*many(in_flight - 1), *many(38 - in_flight, first=100, key="a"), more={1})
    assert len(planner.order.take(37)) == in_flight
    assert bool(planner.plan.partitions(100)) is claims


def test_only_a_few_records_of_each_key_are_held() -> None:
    planner = Planner(1, capacity=1000)
    planner.claimed(*many(40), more={1})
    assert planner.plan.depth({1}) == OF_A_KEY * 40 - 40
    planner.claimed(*many(80, first=100, key="a"), more={1})
    assert planner.plan.partitions(100) == {}


def test_it_says_which_partitions_have_to_wait_for_room() -> None:
    planner = Planner(1, 2)
    assert planner.plan.no_room_for == set()
    planner.claimed(*many(33, key="a"), more={1})
    assert planner.plan.no_room_for == {1, 2}
    planner.order.take(33)  # one of them
    assert planner.plan.no_room_for == set()


def test_a_partition_with_its_share_of_the_capacity_is_not_claimed_from() -> None:
    planner = Planner(1, 2)
    assert (planner.plan.depth({1, 2}), planner.plan.depth({1, 2, 3})) == (20, 14)  # rounded up
    planner.claimed(*many(19, key="a"), more={1, 2})
    assert set(planner.plan.partitions(100)) == {1, 2}
    planner.claimed(*many(1, first=20, key="a"), more={1, 2})
    assert set(planner.plan.partitions(100)) == {2}


def test_of_a_partition_eight_records_are_held_at_least() -> None:
    planner = Planner(*range(1, 11))  # a share of 4
    planner.claimed(*many(LEAST_DEPTH - 1), more={1})
    assert 1 in planner.plan.partitions(100)
    planner.claimed(*many(1, first=50), more={1})
    assert 1 not in planner.plan.partitions(100)


# -- floors


def claimed_beyond(*partitions: int, reached: dict[int, int]) -> Planner:
    """Return a planner with floors at what it has reached: those who wrote before have ended."""
    planner = Planner(*partitions)
    planner.claimed(*many(3), partitions=set(partitions), reached=reached)
    planner.plan.note_writers(frozenset("x"), 100)
    planner.plan.note_writers(frozenset(), 100)
    planner.claimed(partitions=set(partitions), ended=100.1)
    return planner


def test_a_floor_rises_when_all_who_wrote_before_have_ended_and_one_more_claim_was_made() -> None:
    planner = Planner(1)
    planner.claimed(*many(3), reached={1: 3}, ended=100.1)
    floors = []
    for writers in ("xy", "yz", "za", "a"):
        planner.plan.note_writers(frozenset(writers), 100)
        floors.append(planner.plan.floors(100.2).get(1, 0))
        planner.claimed(reached={}, full=False)
        floors.append(planner.plan.floors(100.2).get(1, 0))
    assert floors == [0, 0, 0, 0, 0, 3, 3, 3]


def test_a_floor_waits_for_a_transaction_that_is_prepared_and_has_lost_its_name() -> None:
    planner = Planner(1)
    planner.claimed(*many(3), reached={1: 3}, ended=100.1)
    floors = []
    for writers in ({"x"}, {PREPARED}, {PREPARED, "y"}, {"y"}):
        planner.plan.note_writers(frozenset(writers), 100)
        planner.claimed(reached={}, full=False)
        floors.append(planner.plan.floors(100.2).get(1, 0))
    assert floors == [0, 0, 0, 3]


def test_a_floor_never_passes_what_a_claim_has_not_read() -> None:
    planner = Planner(1)
    planner.claimed(*many(9), reached={1: 9})
    planner.plan.note_writers(frozenset("x"), 100)
    planner.plan.note_writers(frozenset(), 100)
    planner.claimed(record(4), reached={1: 4}, more={1}, ended=100.1)  # was committed late
    assert planner.plan.floors(100.2) == {1: 4}
    planner.claimed(reached={1: 20}, full=False)
    assert planner.plan.floors(100.2) == {1: 9}


@pytest.mark.parametrize(("seconds", "pause"), [(0.01, 0.1), (0.05, 0.5), (0.2, 2.0), (7.0, 2.0)])
def test_a_full_claim_comes_back_after_ten_times_as_long_as_it_took_or_two_seconds(
    seconds: float, pause: float
) -> None:
    planner = claimed_beyond(1, reached={1: 3})
    planner.claimed(reached={1: 3}, began=100, ended=100 + seconds)
    assert (REREAD_SHARE, LONGEST_PAUSE) == (0.1, 2.0)
    assert planner.plan.floors(100 + seconds + pause - 0.001) == {1: 3}
    assert planner.plan.floors(100 + seconds + pause + 0.001) == {}


def test_a_claim_from_the_floors_does_not_put_off_the_full_one() -> None:
    planner = claimed_beyond(1, reached={1: 3})
    planner.claimed(*many(3, first=4), reached={1: 6}, full=False, began=101.0, ended=101.05)
    assert planner.plan.floors(101.0) == {1: 3}
    assert planner.plan.floors(101.2) == {}


def test_after_a_full_claim_every_other_partition_is_read_from_its_start_once() -> None:
    planner = claimed_beyond(1, 2, 3, reached={1: 7, 2: 8, 3: 9})
    planner.claimed(partitions={1}, full=True, began=101.0, ended=101.1)
    assert planner.plan.floors(101.2) == {1: 7}
    planner.claimed(record(10, partition=2), partitions={1, 2}, full=False, ended=101.2)
    assert planner.plan.floors(101.3) == {1: 7, 2: 8}
    assert planner.plan.floors(101.3, of_all=True) == {1: 7, 2: 8}
    planner.plan.look_into([1, 2])  # a poll has looked into the third one
    assert planner.plan.floors(101.3, of_all=True) == {1: 7, 2: 8, 3: 9}


def test_a_full_claim_comes_back_after_ten_times_as_long_as_all_reading_again_took() -> None:
    planner = claimed_beyond(1, 2, reached={1: 7, 2: 8})
    planner.claimed(partitions={1}, full=True, began=101.00, ended=101.02)
    planner.claimed(record(9), partitions={2}, full=False, began=101.02, ended=101.05)
    assert planner.plan.floors(101.54) == {1: 7, 2: 8}
    assert planner.plan.floors(101.56) == {}


def test_a_partition_that_another_worker_has_held_is_read_from_its_start() -> None:
    planner = claimed_beyond(1, 2, reached={1: 7, 2: 8})
    planner.plan.look_into([1, 2], {2})
    assert planner.plan.floors(100.2) == {1: 7}


def test_after_a_record_that_others_waited_for_its_partition_is_read_from_the_start() -> None:
    planner = claimed_beyond(1, 2, reached={1: 7, 2: 8})
    assert planner.plan.floors(100.2) == {1: 7, 2: 8}
    planner.plan.look_again(record(5, "a"))
    assert planner.plan.partitions(100) == {1: 10}
    assert planner.plan.floors(100.2) == {2: 8}


def test_partitions_that_are_not_leased_any_more_are_claimed_from_the_start() -> None:
    planner = claimed_beyond(1, 2, reached={1: 3, 2: 9})
    planner.plan.look_into([2, 3])
    assert planner.plan.floors(100.2) == {2: 9}
    assert planner.plan.floors(100.2, of_all=True) == {1: 3, 2: 9}  # to see whether there is work
    planner.plan.look_into([1])
    assert planner.plan.floors(100.2) == {}


def test_another_database_is_read_from_the_start() -> None:
    planner = claimed_beyond(1, reached={1: 3})
    planner.plan.forget()
    assert (planner.plan.floors(100.2), list(planner.order.held)) == ({}, [])


# -- nothing to deliver


def test_claims_in_a_row_that_find_nothing_are_counted() -> None:
    planner, one = Planner(1), record(1)
    counts: list[int] = []
    for found in ([], [], [one], []):
        planner.claimed(*found)
        counts.append(planner.plan.empty_claims)
        for each in found:
            planner.order.settled(each)
    assert counts == [1, 2, 0, 1]


def test_there_is_something_to_deliver_while_records_are_held_or_partitions_have_more() -> None:
    planner = Planner(1, 2)
    assert not planner.claimed(partitions={1})  # there is more in the other one
    assert not planner.claimed(record(1), partitions={2})
    assert not planner.claimed(partitions=set())  # while that one is held


def test_partitions_with_records_are_kept_for_a_while() -> None:
    planner = Planner(1, 2)
    planner.leases.limit(64, lambda _: 0, now=0)
    planner.claimed(partitions={1, 2})
    assert planner.leases.lingering(101) == set()
    planner.claimed(record(1), partitions={1, 2})
    assert planner.leases.lingering(101) == {1, 2}


def test_a_commit_during_a_claim_is_claimed_after_it() -> None:
    planner = Planner(1, 2)
    planner.plan.begin({1, 2})
    planner.plan.wake({2})
    planner.plan.claimed(claim(), {1, 2}, full=True, began=100, ended=100)
    assert planner.plan.partitions(100) == {2: 20}


# -- hot keys


def test_keys_are_hot_when_one_key_has_filled_it_for_a_second() -> None:
    planner = Planner(1, 2, capacity=1000)
    planner.fill(10.0, 1, 20)
    assert planner.filled(10.0 + FILLED_FOR - 0.01) == []
    assert planner.filled(10.0 + FILLED_FOR) == [1]


@pytest.mark.parametrize("per_second", [1, 10, 1000])
def test_keys_are_hot_at_any_speed_of_the_hot_key(per_second: int) -> None:
    planner, now = Planner(1, 2, capacity=1000), 10.0
    planner.fill(now, 1, 20)
    last, found = 20, 0
    for _ in range(3 * per_second):
        now += 1 / per_second
        [first] = planner.order.take(1)
        planner.order.answered(first, delivered=True)
        planner.order.settled(first)
        if planner.order.held_of[1] <= 20 - FEW_KEYS:
            planner.fill(now, last + 1, FEW_KEYS)
            last += FEW_KEYS
        found += len(planner.filled(now + 1e-9))
    assert 1 <= found <= 3


def test_a_filled_partition_is_returned_once_a_second_while_it_is_claimed_from() -> None:
    planner = Planner(1, 2, capacity=1000)
    planner.fill(10.0, 1, 20)
    assert (planner.filled(11.0), planner.filled(11.0)) == ([1], [])
    planner.fill(11.5, 21, 20)
    assert (planner.filled(11.9), planner.filled(12.0), planner.filled(12.0)) == ([], [1], [])


@pytest.mark.parametrize(("keys", "full"), [(20, True), (1, False)])
def test_a_claim_with_many_keys_or_one_that_is_not_full_ends_it(keys: int, full: bool) -> None:
    planner = Planner(1, 2, capacity=1000)
    planner.fill(10.0, 1, 20)
    planner.fill(10.5, 21, 20, keys=keys, full=full)
    assert planner.filled(20.0) == []


def test_a_claim_from_another_partition_says_nothing_about_it() -> None:
    planner = Planner(1, 2, capacity=1000)
    planner.fill(10.0, 1, 20, partition=1)
    planner.fill(10.5, 21, 20, partition=2, keys=20)
    assert planner.filled(11.0) == [1]


def test_several_partitions_can_have_hot_keys_at_once() -> None:
    planner = Planner(1, 2, capacity=1000)
    planner.fill(10.0, 1, 20, partition=1)
    planner.fill(10.5, 21, 20, partition=2)
    assert (planner.filled(11.0), planner.filled(12.0)) == ([1], [1, 2])


def test_a_partition_of_which_nothing_is_held_any_more_has_no_hot_keys() -> None:
    planner = Planner(1, 2, capacity=1000)
    planner.fill(10.0, 1, 20)
    planner.order.drop_waiting()
    assert planner.filled(11.0) == []


@pytest.mark.parametrize(("keys", "filled"), [(5, [1]), (6, [])])
def test_keys_are_few_if_there_are_four_records_to_a_key(keys: int, filled: list[int]) -> None:
    planner = Planner(1, 2, capacity=1000)
    planner.fill(10.0, 1, 5 * FEW_KEYS, keys=keys)
    planner.claimed(*many(20, partition=2, first=100), partitions={2}, more={2}, began=10.0)
    assert planner.filled(11.0) == filled  # records without a key are not hot
