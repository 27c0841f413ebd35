"""The leases of a lane: until when, for what, and with how much caution."""

import pytest

from postroom.record import PARTITIONS
from postroom.relay.leases import CAUTIOUS_AFTER, LINGER, Leases
from postroom.store.base import Lease
from tests.unit.relay.records import record


def lease(partition: int, token: int = 1, **values: int) -> Lease:
    return Lease(partition=partition, token=token, **values)


@pytest.fixture
def leases() -> Leases:
    """Leases of partitions 1 to 3, asked for at 100, for 30 seconds."""
    leases = Leases()
    leases.renew([lease(1), lease(2, 5), lease(3)], asked_at=100, seconds=30)
    return leases


def test_without_a_poll_nothing_may_be_started() -> None:
    assert (Leases().alive(0), len(Leases()), Leases().tokens()) == (False, 0, {})


def test_nothing_new_is_started_near_the_end(leases: Leases) -> None:
    assert leases.alive(100)
    assert leases.alive(120)
    assert not leases.alive(125)  # five seconds before the database thinks so
    assert not leases.alive(1000)


def test_a_poll_that_took_long_gives_no_more_time(leases: Leases) -> None:
    leases.renew([lease(1)], asked_at=110, seconds=30)  # answered at 133
    assert not leases.alive(135)


def test_a_record_is_covered_by_the_very_lease_that_it_was_claimed_under(leases: Leases) -> None:
    assert leases.covers(record(1, partition=2, token=5))
    assert not leases.covers(record(1, partition=2, token=4))
    assert not leases.covers(record(1, partition=2, token=6))
    assert not leases.covers(record(1, partition=9, token=1))


def test_a_poll_replaces_what_was_held(leases: Leases) -> None:
    leases.renew([lease(2, 6)], asked_at=110, seconds=30)
    assert (len(leases), leases.tokens()) == (1, {2: 6})


def test_what_is_least_in_use_is_retired_and_not_claimed_from(leases: Leases) -> None:
    leases.retire(1, {1: 7, 2: 0, 3: 2}.__getitem__)
    assert leases.retiring == {2, 3}
    assert leases.tokens() == {1: 1}
    assert leases.covers(record(1, partition=2, token=5))  # what is held of it may still leave


@pytest.mark.parametrize("share", [3, 4, 64])
def test_nothing_is_retired_within_the_share(leases: Leases, share: int) -> None:
    leases.retire(share, lambda _: 0)
    assert leases.retiring == frozenset()


def test_what_was_retired_comes_back_when_the_share_grows(leases: Leases) -> None:
    leases.retire(0, lambda _: 0)
    assert leases.tokens() == {}
    leases.retire(3, lambda _: 0)
    assert set(leases.tokens()) == {1, 2, 3}


@pytest.mark.requirement("E1")
def test_caution_begins_with_the_second_crash() -> None:
    leases = Leases()
    crashed = [lease(count, crash_count=count) for count in range(4)]
    leases.renew(crashed, asked_at=0, seconds=30)
    assert CAUTIOUS_AFTER == 2
    assert leases.cautious == {2, 3}


def test_crashes_are_those_of_the_suspect_and_nobody_else() -> None:
    leases = Leases()
    crashed = lease(1, crash_count=3, suspect=17, suspect_crashes=2)
    leases.renew([crashed], asked_at=0, seconds=30)
    assert leases.crashes_of(record(17, partition=1)) == 2
    assert leases.crashes_of(record(18, partition=1)) == 0
    assert leases.crashes_of(record(17, partition=2)) == 0


def test_calm_forgets_the_crashes_and_keeps_the_lease() -> None:
    leases = Leases()
    crashed = lease(1, 9, crash_count=3, suspect=17, suspect_crashes=2)
    leases.renew([crashed], asked_at=0, seconds=30)
    leases.calm(1)
    leases.calm(2)
    assert (leases.cautious, leases.tokens()) == (set(), {1: 9})
    assert leases.crashes_of(record(17, partition=1)) == 0


def test_all_can_be_let_go(leases: Leases) -> None:
    leases.retire(1, lambda _: 0)
    leases.clear()
    assert (len(leases), leases.tokens(), leases.retiring) == (0, {}, frozenset())
    assert not leases.alive(100)


def test_a_lease_is_kept_for_a_while_after_a_record_of_its_partition(leases: Leases) -> None:
    leases.retire(PARTITIONS, lambda partition: partition)  # nobody else is there
    leases.serve([1, 2, 99], now=100)
    leases.serve([2], now=103)

    assert leases.lingering(now=100 + LINGER - 0.1) == {1, 2}
    assert leases.lingering(now=100 + LINGER) == {2}
    assert leases.lingering(now=103 + LINGER) == set()


def test_with_others_there_nothing_lingers(leases: Leases) -> None:
    leases.serve([1, 2, 3], now=100)
    assert leases.lingering(now=101) == set()  # it has not been told whether it is alone

    leases.retire(PARTITIONS // 2, lambda partition: partition)

    assert leases.lingering(now=101) == set()


@pytest.mark.parametrize(
    ("held", "share", "most"),
    [
        (PARTITIONS // 2, PARTITIONS, True),
        (PARTITIONS // 2 - 1, PARTITIONS, False),
        (PARTITIONS, PARTITIONS // 2, False),
    ],
    ids=["half of them", "fewer", "with others there"],
)
def test_most_is_half_of_all_partitions_when_nobody_else_is_there(
    held: int, share: int, most: bool
) -> None:
    leases = Leases()
    leases.renew([lease(each) for each in range(held)], asked_at=100, seconds=30)
    leases.retire(share, lambda partition: partition)
    assert leases.are_most is most
