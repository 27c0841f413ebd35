"""Where to claim next, how many records, and from which position on."""

import pytest

from postroom.relay.claiming import LEAST_DEPTH, LONGEST_PAUSE, REREAD_SHARE, ClaimPlan
from postroom.relay.leases import HeldLeases
from postroom.store.base import HeldRecord, Lease
from postroom.store.key_order import KeyOrder
from tests.unit.relay.records import claim, record


class Planner:
    """A plan for some leased partitions, at the moment 100."""

    def __init__(self, *partitions: int, capacity: int = 40, batch_size: int = 8) -> None:
        self.order = KeyOrder()
        self.leases = HeldLeases(30.0)
        leases = [Lease(partition=each, token=each * 10) for each in partitions]
        self.leases.polled(leases, asked_at=100.0)
        self.plan = ClaimPlan(self.order, self.leases, capacity=capacity, batch_size=batch_size)
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
        return self.plan.claimed(
            claim(*records, more=more or (), reached=reached),
            {1} if partitions is None else partitions,
            full=full,
            began=began,
            ended=ended,
        )


def many(
    count: int, partition: int = 1, first: int = 1, key: str | None = None
) -> list[HeldRecord]:
    return [record(each, key, partition=partition) for each in range(first, first + count)]


def test_it_claims_from_the_leased_partitions_with_their_tokens() -> None:
    planner = Planner(1, 2)
    assert planner.plan.partitions(100) == {1: 10, 2: 20}
    assert planner.plan.depth({1, 2}) == 20


def test_it_claims_nothing_from_partitions_that_it_may_not_rely_on() -> None:
    planner = Planner(1, 2)
    planner.plan.look_into([1, 3])
    assert planner.plan.partitions(100) == {1: 10}
    assert planner.plan.partitions(1000) == {}
    planner.leases.limit(1, {1: 0, 2: 1}.__getitem__)
    assert planner.plan.partitions(100) == {}


def test_a_partition_that_had_no_more_is_not_claimed_from_until_the_next_poll() -> None:
    planner = Planner(1, 2)
    planner.claimed(*many(3), partitions={1, 2}, more={2})
    assert planner.plan.partitions(100) == {2: 20}
    planner.plan.look_into([1, 2])
    assert set(planner.plan.partitions(100)) == {1, 2}


def test_a_claim_keeps_the_other_partitions_that_may_have_more() -> None:
    planner = Planner(1, 2)
    planner.claimed(*many(3), partitions={1})
    assert set(planner.plan.partitions(100)) == {2}


@pytest.mark.parametrize(
    ("held", "claims"), [(0, True), (32, True), (33, False), (40, False), (50, False)]
)
def test_while_records_may_be_sent_it_waits_for_room_for_a_batch(held: int, claims: bool) -> None:
    planner = Planner(1)
    planner.claimed(*many(held), more={1})
    assert bool(planner.plan.partitions(100)) is claims


def test_when_nothing_may_be_sent_less_room_is_enough() -> None:
    planner = Planner(1)
    planner.claimed(*many(37), more={1})
    planner.order.take(37)
    assert planner.plan.partitions(100) == {1: 10}


def test_without_room_it_claims_nothing() -> None:
    planner = Planner(1)
    planner.claimed(*many(40), more={1})
    planner.order.take(40)
    assert planner.plan.partitions(100) == {}


def test_it_says_which_partitions_have_to_wait_for_room() -> None:
    planner = Planner(1, 2)
    assert planner.plan.no_room_for == set()
    planner.claimed(*many(33), more={1})
    assert planner.plan.no_room_for == {1, 2}
    planner.order.take(33)
    assert planner.plan.no_room_for == set()


def test_a_claim_fills_the_capacity() -> None:
    planner = Planner(1, 2, 3)
    assert planner.plan.depth({1, 2, 3}) == 14  # a third of 40, rounded up
    planner.claimed(*many(10), more={1})
    assert planner.plan.depth({1}) == 30


def test_a_partition_with_its_share_of_the_capacity_is_not_claimed_from() -> None:
    planner = Planner(1, 2)
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


def test_the_first_claim_reads_everything() -> None:
    planner = Planner(1)
    assert planner.plan.floors(100) == {}


@pytest.mark.parametrize(("seconds", "pause"), [(0.01, 0.1), (0.05, 0.5), (0.1, 1.0), (7.0, 1.0)])
def test_a_full_claim_comes_back_after_ten_times_as_long_as_it_took_or_a_second(
    seconds: float, pause: float
) -> None:
    planner = Planner(1)
    planner.claimed(*many(3), reached={1: 3}, began=100, ended=100 + seconds)
    assert (REREAD_SHARE, LONGEST_PAUSE) == (0.1, 1.0)
    assert planner.plan.floors(100 + seconds + pause - 0.001) == {1: 3}
    assert planner.plan.floors(100 + seconds + pause + 0.001) == {}


def test_a_claim_from_the_floors_does_not_put_off_the_full_one() -> None:
    planner = Planner(1)
    planner.claimed(*many(3), reached={1: 3}, began=100, ended=100.1)
    planner.claimed(*many(3, first=4), reached={1: 6}, full=False, began=101.0, ended=101.05)
    assert planner.plan.floors(101.0) == {1: 6}
    assert planner.plan.floors(101.2) == {}


def test_after_a_record_that_others_waited_for_its_whole_partition_is_read_again() -> None:
    planner = Planner(1, 2)
    [one, two] = [record(1, "a"), record(2, "b", partition=2)]
    planner.claimed(one, two, partitions={1, 2}, reached={1: 1, 2: 2}, ended=100.1)
    assert planner.plan.partitions(100) == {}
    planner.plan.look_again(one)
    assert planner.plan.partitions(100) == {1: 10}
    assert planner.plan.floors(100.2) == {2: 2}


# -- nothing to deliver


def test_a_claim_that_finds_nothing_is_noted_the_first_time_in_a_row() -> None:
    planner = Planner(1)
    first: list[bool] = []
    for _ in range(3):
        assert planner.claimed()
        first.append(planner.plan.first_empty_claim)
    assert first == [True, False, False]


def test_a_record_between_two_empty_claims_makes_the_second_the_first_in_a_row() -> None:
    planner, one = Planner(1), record(1)
    assert planner.claimed()
    assert not planner.claimed(one)
    planner.order.settled(one)
    assert planner.claimed()
    assert planner.plan.first_empty_claim


def test_there_is_something_to_deliver_while_records_are_held_or_partitions_have_more() -> None:
    planner = Planner(1, 2)
    assert not planner.claimed(partitions={1})  # there is more in the other one
    assert not planner.claimed(record(1), partitions={2})
    assert not planner.claimed(partitions=set())  # while that one is held


def test_partitions_with_records_are_kept_for_a_while() -> None:
    planner = Planner(1, 2)
    planner.leases.limit(64, lambda _: 0)
    planner.claimed(record(1), partitions={1, 2})
    assert planner.leases.lingering(101) == {1}
