"""The leases of a worker: until when it may rely on each, and for what."""

import pytest

from postroom.record import PARTITIONS
from postroom.relay.leases import LINGER, MARGIN, SURPLUS_SECONDS, HeldLeases
from postroom.store.base import Lease
from tests.unit.relay.records import record

SECONDS = 30.0
USABLE = (1 - MARGIN) * SECONDS


def lease(partition: int, token: int = 1) -> Lease:
    return Lease(partition=partition, token=token)


@pytest.fixture
def leases() -> HeldLeases:
    """Leases of partitions 1 to 3, asked for at 100, for 30 seconds."""
    leases = HeldLeases(SECONDS)
    leases.polled([lease(1), lease(2, 5), lease(3)], asked_at=100)
    return leases


def test_nothing_new_is_started_near_the_end(leases: HeldLeases) -> None:
    one = record(1)
    assert USABLE == 24
    for now, relied_on in [(100, True), (120, True), (123.9, True), (124, False), (1000, False)]:
        assert leases.covers(one, now) is relied_on
        assert (1 in leases.claimable(now)) is relied_on
        assert leases.holds(one)


def test_a_poll_that_took_long_gives_no_more_time(leases: HeldLeases) -> None:
    leases.polled([lease(1)], asked_at=110)  # answered at 133
    assert not leases.covers(record(1), 135)
    assert leases.claimable(135) == {}


def test_a_record_is_covered_by_the_very_lease_that_it_was_claimed_under(
    leases: HeldLeases,
) -> None:
    own = record(1, partition=2, token=5)
    assert (leases.holds(own), leases.covers(own, 100), leases.leaves(own, 100)) == (
        True,
        True,
        False,
    )
    for partition, token in ((2, 4), (2, 6), (9, 1)):
        other = record(1, partition=partition, token=token)
        found = (leases.holds(other), leases.covers(other, 100), leases.leaves(other, 100))
        assert found == (False, False, True)


def test_a_poll_says_which_partitions_other_workers_have_held_since(leases: HeldLeases) -> None:
    assert HeldLeases(SECONDS).polled([lease(1), lease(2, 5)], asked_at=100) == {2}
    leases.polled([lease(1)], asked_at=110)
    released_before = [lease(1), lease(2, 6), lease(3, 3)]  # 2 by itself, 3 by another worker
    assert leases.polled(released_before, asked_at=120) == {3}
    assert leases.polled(released_before, asked_at=130) == set()


def test_a_poll_replaces_what_was_held(leases: HeldLeases) -> None:
    leases.polled([lease(2, 6)], asked_at=110)
    assert (len(leases.tokens), leases.claimable(110)) == (1, {2: 6})
    assert leases.tokens == {2: 6}


def test_a_heartbeat_extends_the_leases_that_it_renewed_and_no_others(leases: HeldLeases) -> None:
    leases.renewed({1: 1, 2: 5, 9: 1}, asked_at=110)
    assert set(leases.tokens) == {1, 2, 3}
    assert leases.claimable(110 + USABLE - 0.1) == {1: 1, 2: 5}
    assert leases.claimable(110 + USABLE) == {}
    assert not leases.covers(record(1, partition=3), 124)
    assert leases.holds(record(1, partition=3))


@pytest.mark.parametrize("token", [4, 6])
def test_a_heartbeat_does_not_extend_a_lease_with_another_token(
    leases: HeldLeases, token: int
) -> None:
    leases.renewed({2: token}, asked_at=110)
    assert 2 not in leases.claimable(124)
    assert not leases.covers(record(1, partition=2, token=token), 110)


def test_a_heartbeat_that_was_sent_before_the_poll_does_not_shorten_a_lease(
    leases: HeldLeases,
) -> None:
    leases.renewed({1: 1, 2: 5, 3: 1}, asked_at=90)
    assert leases.claimable(123.9) == {1: 1, 2: 5, 3: 1}


def test_the_surplus_is_what_is_least_in_use_and_is_not_claimed_from(leases: HeldLeases) -> None:
    leases.limit(1, {1: 7, 2: 0, 3: 2}.__getitem__, now=100)
    assert set(leases.surplus) == {2, 3}
    assert leases.claimable(100) == {1: 1}
    for share in (3, 4, 64):
        leases.limit(share, lambda _: 0, now=100)
        assert (leases.surplus, set(leases.claimable(100))) == ({}, {1, 2, 3})
    leases.limit(1, {1: 7, 2: 0, 3: 2}.__getitem__, now=100)
    assert leases.covers(record(1, partition=2, token=5), 100)  # what is held may still be sent


def test_records_of_the_surplus_are_left_to_others_after_a_second(leases: HeldLeases) -> None:
    of_surplus, of_share = record(1, partition=3), record(2, partition=1)
    use = {1: 7, 2: 5, 3: 0}.__getitem__
    leases.limit(2, use, now=100)
    assert not leases.leaves(of_surplus, 100)
    leases.limit(2, use, now=100 + SURPLUS_SECONDS)
    assert leases.leaves(of_surplus, 100 + SURPLUS_SECONDS)
    assert not leases.leaves(of_share, 100 + SURPLUS_SECONDS)


def test_the_second_begins_anew_when_a_partition_was_in_the_share_meanwhile(
    leases: HeldLeases,
) -> None:
    for share, now in [(2, 100.0), (3, 100.5), (2, 101.0)]:
        leases.limit(share, {1: 7, 2: 5, 3: 0}.__getitem__, now=now)
    assert not leases.leaves(record(1, partition=3), 101.5)


def test_all_can_be_released(leases: HeldLeases) -> None:
    leases.limit(1, lambda _: 0, now=100)
    leases.polled([], asked_at=100)
    assert (len(leases.tokens), leases.claimable(100), leases.surplus) == (0, {}, {})
    assert not leases.covers(record(1), 100)
    assert not leases.holds(record(1))


def test_leases_are_kept_for_a_while_after_a_record(leases: HeldLeases) -> None:
    leases.limit(PARTITIONS, lambda partition: partition, now=100)  # there is no other worker
    leases.served(now=100)
    leases.served(now=103)

    assert leases.lingering(now=103 + LINGER - 0.1) == {1, 2, 3}
    assert leases.lingering(now=103 + LINGER) == set()


def test_with_other_workers_nothing_lingers(leases: HeldLeases) -> None:
    leases.served(now=100)
    assert leases.lingering(now=101) == set()  # it does not know yet whether there are others

    leases.limit(PARTITIONS // 2, lambda partition: partition, now=100)

    assert leases.lingering(now=101) == set()
