"""Poison: the record that breaks connections, and the record that kills processes."""

import logging
from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

import pytest

from postroom.record import PARTITIONS
from postroom.relay.leases import HeldLeases
from postroom.relay.poison import (
    ALONE_AFTER,
    ALONE_SECONDS,
    CAREFUL_SECONDS,
    GROUP,
    ONE_BY_ONE_AFTER,
    QUARANTINED_AFTER,
    REFUSED_AFTER,
    REMEMBERED,
    TRIED_ALONE,
    Poison,
    quarantine,
)
from postroom.store.base import HeldRecord, Lease
from postroom.store.key_order import KeyOrder
from tests.unit.relay.records import claim, many, positions, record

# -- records that break the connection


@pytest.fixture
def poison() -> Poison:
    return Poison()


def break_connection(poison: Poison, *records: HeldRecord) -> list[HeldRecord]:
    """Break the connection while records are in flight, after another one was answered."""
    poison.answered([record(1_000_000)])
    return poison.connection_broke(records)


def test_a_record_in_flight_at_one_break_is_sent_again_as_before(poison: Poison) -> None:
    one = record(1)
    assert not _was_there(poison, one)
    assert break_connection(poison, one) == []
    assert not _must_go_alone(poison, one)
    assert _was_there(poison, one)


def test_a_record_in_flight_at_two_breaks_goes_alone(poison: Poison) -> None:
    one, other = record(1), record(2)
    break_connection(poison, one, other)
    break_connection(poison, one)
    assert (_must_go_alone(poison, one), _must_go_alone(poison, other)) == (True, False)
    assert not _must_go_alone(poison, record(3))
    assert poison.first_to_go_alone([record(3), other, one]) is one
    assert poison.first_to_go_alone([record(3), other]) is None


def test_a_record_that_then_breaks_the_connection_twice_alone_is_guilty(poison: Poison) -> None:
    one = record(1)
    assert (ALONE_AFTER, REFUSED_AFTER) == (2, 4)
    assert [break_connection(poison, one) for _ in range(4)] == [[], [], [], [one]]
    assert not _was_there(poison, one)  # nothing more is held against it
    assert not _must_go_alone(poison, one)


@pytest.mark.requirement("C17")
def test_an_outage_makes_no_record_guilty_however_often_it_is_tried(poison: Poison) -> None:
    one = record(1)
    assert [poison.connection_broke([one]) for _ in range(100)] == [[]] * 100
    assert not _must_go_alone(poison, one)


def test_breaks_count_again_once_others_are_answered(poison: Poison) -> None:
    one = record(1)
    for _ in range(50):
        poison.connection_broke([one])  # counts as one
    assert [break_connection(poison, one) for _ in range(3)] == [[], [], [one]]


def test_an_answer_clears_a_record_and_no_other(poison: Poison) -> None:
    one, other = record(1), record(2)
    for _ in range(2):
        break_connection(poison, one, other)
    poison.answered([one, record(3)])
    assert (_must_go_alone(poison, one), _must_go_alone(poison, other)) == (False, True)


def test_a_connection_is_tried_with_the_record_that_was_in_flight_at_the_fewest_breaks(
    poison: Poison,
) -> None:
    one, two, three, four = record(1), record(2), record(3), record(4)
    for broken in ([one, two], [one], [one, two]):
        poison.connection_broke(broken)
    assert poison.least_suspicious(iter([one, two, four, three])) is four  # the first of them
    assert poison.least_suspicious(iter([one, two])) is two
    assert poison.least_suspicious(iter([one])) is one
    assert poison.least_suspicious(iter([])) is None


def test_what_is_remembered_is_bounded_and_the_oldest_is_forgotten_first(poison: Poison) -> None:
    records = [record(number) for number in range(1, REMEMBERED + 3)]
    break_connection(poison, *records)
    break_connection(poison, *records[-3:])
    known = [each for each in (records[0], records[1], records[2]) if _was_there(poison, each)]
    assert known == [records[2]]
    assert [_must_go_alone(poison, each) for each in records[-4:]] == [False, True, True, True]


def test_a_break_makes_a_record_the_last_to_be_forgotten(poison: Poison) -> None:
    records = [record(number) for number in range(1, REMEMBERED + 1)]
    break_connection(poison, *records)
    break_connection(poison, records[0])
    break_connection(poison, record(REMEMBERED + 1))
    assert _was_there(poison, records[0])
    assert not _was_there(poison, records[1])


def _must_go_alone(poison: Poison, suspect: HeldRecord) -> bool:
    return poison.first_to_go_alone([suspect]) is suspect


def _was_there(poison: Poison, suspect: HeldRecord) -> bool:
    """Return whether it is known that a record was in flight at a break."""
    return poison.least_suspicious(iter([suspect, record(2_000_000)])) is not suspect


# -- records that kill the process


class Worker:
    """What one process knows of the partitions that it leases; all of it is gone when it dies."""

    def __init__(self, *leases: Lease, room: int = 1000) -> None:
        self.leases = HeldLeases(30.0)
        self.order = KeyOrder()
        self.poison = Poison()
        self.room = room
        self.poll(*leases)

    def poll(self, *leases: Lease, now: float = 0.0) -> None:
        self.leases.polled(leases, asked_at=now)
        self.poison.look_at(leases, now)

    def hold(self, *records: HeldRecord) -> None:
        self.order.add(claim(*records))

    def choose(self, now: float = 0.0) -> dict[int, int]:
        """Return the positions that are chosen, with the deaths that each is a suspect of."""
        chosen = self.poison.choose(self.order, self.leases, self.room, now)
        return {each.position: deaths for each, deaths in chosen.items()}

    def send(self, now: float = 0.0) -> list[HeldRecord]:
        """Send what is chosen, each record alone."""
        chosen = list(self.poison.choose(self.order, self.leases, self.room, now))
        for each in chosen:
            self.order.take(1, lambda other, each=each: other is each)  # type: ignore[misc]
        self.poison.sent(chosen, now)
        return chosen

    def deliver(self, records: Iterable[HeldRecord], now: float = 0.0) -> set[int]:
        """Note that records were delivered; return the partitions that nothing is held against."""
        for each in records:
            self.order.answered(each, delivered=True)
            self.order.settled(each)
        return self.poison.survived(self.order, now)

    def holds_back(self, position: int, partition: int = 1) -> bool:
        return self.poison.holds_back(record(position, partition=partition))


def lease(
    partition: int = 1, *, crashes: int = 2, suspect: int | None = None, deaths: int = 0
) -> Lease:
    """Return the lease of a partition whose last holders died."""
    suspected = None if suspect is None else UUID(int=suspect)
    return Lease(partition, 1, crashes, suspected, deaths)


@pytest.mark.requirement("E1")
@pytest.mark.parametrize(("crashes", "one_by_one"), [(0, False), (1, False), (2, True), (3, True)])
def test_sending_one_by_one_begins_with_the_second_crash(crashes: int, one_by_one: bool) -> None:
    worker = Worker(lease(crashes=crashes), lease(2, crashes=1))
    assert worker.poison.survived(worker.order) == set()  # before a record was claimed
    worker.hold(record(1), record(2, partition=2))
    assert ONE_BY_ONE_AFTER == 2
    assert worker.holds_back(1) is one_by_one
    assert not worker.holds_back(2, partition=2)  # its last holder did not die twice
    assert worker.choose() == ({1: 0} if one_by_one else {})


def test_one_record_of_each_partition_is_sent_at_a_time() -> None:
    worker = Worker(lease(1), lease(2))
    worker.hold(*many(3, partition=1), *many(3, partition=2, first=11))
    worker.room = 1
    assert list(worker.choose()) == [1]
    worker.room = 2
    first = worker.send()
    assert positions(first) == [1, 11]
    assert worker.choose() == {}
    worker.deliver(first[:1])
    assert worker.choose() == {2: 0}


def test_a_record_whose_lease_is_lost_or_about_to_end_is_not_chosen() -> None:
    worker = Worker(lease(1), lease(2))
    worker.hold(record(1, token=9), record(2), record(3, partition=2))
    assert list(worker.choose()) == [2, 3]
    assert worker.choose(now=29.0) == {}


def test_sending_one_by_one_ends_by_itself_and_names_the_partitions_whose_crashes_to_clear() -> (
    None
):
    worker = Worker(lease(1), lease(2))
    worker.hold(*many(20, partition=1), *many(20, partition=2, first=101))
    for now in range(0, int(CAREFUL_SECONDS), 4):
        worker.poll(lease(1), lease(2), lease(3), now=now)  # does not begin anew
        assert worker.deliver(worker.send(now), now) == set()
    worker.poll(lease(1), lease(2), lease(3), now=CAREFUL_SECONDS)
    last = worker.send(CAREFUL_SECONDS)
    assert worker.deliver(last[:1], CAREFUL_SECONDS) == {1, 3}
    assert worker.deliver(last[1:], CAREFUL_SECONDS) == {2}
    assert worker.choose(CAREFUL_SECONDS) == {}
    assert not worker.holds_back(1)


@pytest.mark.parametrize("polled", [[lease(1, crashes=1), lease(2)], [lease(2)]])
def test_sending_one_by_one_ends_when_a_worker_is_alive_or_the_lease_is_gone(
    polled: list[Lease],
) -> None:
    worker = Worker(lease(1), lease(2))
    worker.poll(*polled)
    assert not worker.holds_back(1)
    assert worker.holds_back(2, partition=2)


def test_a_record_that_comes_back_without_an_answer_is_not_blamed_but_sent_again() -> None:
    worker = Worker(lease(suspect=1, deaths=1))
    worker.hold(record(1))
    [sent] = worker.send()
    worker.order.returned(sent)
    assert worker.poison.survived(worker.order) == {1}
    worker.poll(lease(crashes=0))
    assert not worker.holds_back(1)


def test_the_begin_and_the_end_of_sending_one_by_one_are_logged_as_warnings(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "postroom.relay"):
        worker = Worker(lease(1), lease(2), lease(3, crashes=0))
        assert [each.levelname for each in caplog.records] == ["WARNING"]
        assert "workers died while they held 2 partitions. For 10 s their records" in caplog.text
        caplog.clear()
        worker.poll(lease(1), lease(2), lease(3, crashes=0))
        worker.deliver(())
        assert caplog.records == []
        worker.deliver((), CAREFUL_SECONDS)
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    assert "no worker died since" in caplog.text


def test_half_of_the_room_is_kept_for_partitions_that_go_one_by_one() -> None:
    held = [lease(each, crashes=2 if each <= 5 else 0) for each in range(1, 11)]
    worker = Worker(*held)
    worker.hold(*(record(each, partition=each) for each in range(1, 11)))
    assert worker.poison.reserved(100) == 5
    assert worker.poison.reserved(6) == 3
    assert worker.poison.reserved(1) == 1
    worker.room = 2
    worker.send()
    assert worker.poison.reserved(100) == 3
    assert worker.poison.reserved(6) == 1


def test_partitions_that_go_one_by_one_and_get_no_room_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = Worker(lease())
    worker.hold(record(1))
    worker.room = 0
    caplog.clear()
    for now in (0.0, 4.0, 8.0):
        worker.choose(now)
    assert caplog.records == []
    worker.leases.polled([lease()], asked_at=CAREFUL_SECONDS)
    worker.choose(CAREFUL_SECONDS)
    assert "1 partitions stand still: the publisher can take no more for 10 s" in caplog.text


# -- suspects


def suspects(count: int, deaths: int = 1) -> list[Lease]:
    """Return leases of partitions that have a suspect each: the record of the same number."""
    return [lease(each, crashes=3, suspect=each, deaths=deaths) for each in range(1, count + 1)]


def test_suspects_go_in_groups_with_nothing_else_in_flight() -> None:
    worker = Worker(*suspects(20), lease(30, crashes=0))
    worker.hold(*(record(each, partition=each) for each in range(1, 21)), record(31, partition=30))
    sizes = []
    for _ in range(3):
        assert worker.choose()
        assert worker.holds_back(31, partition=30)
        sent = worker.send()
        assert worker.choose() == {}
        sizes.append(len(sent))
        assert worker.deliver(sent) == {each.partition for each in sent}
    assert sizes == [GROUP, GROUP, 4]
    worker.choose()
    assert not worker.holds_back(31, partition=30)


def test_the_suspects_of_a_group_that_the_process_did_not_survive_go_alone() -> None:
    worker = Worker(*suspects(3, deaths=2), lease(4, crashes=3, suspect=4, deaths=1))
    worker.hold(*(record(each, partition=each) for each in range(1, 5)))
    order = []
    while sent := worker.send():
        order.append(positions(sent))
        worker.deliver(sent)
    assert order == [[1], [2], [3], [4]]


def test_the_suspect_of_the_most_deaths_goes_first_and_alone() -> None:
    worker = Worker(*suspects(3), lease(4, crashes=5, suspect=4, deaths=3))
    worker.hold(*(record(each, partition=each) for each in range(1, 5)))
    assert worker.choose() == {4: 3}


def test_a_suspect_that_survives_what_it_was_blamed_for_clears_every_partition() -> None:
    worker = Worker(*suspects(3, deaths=TRIED_ALONE), lease(40))
    worker.hold(*(record(each, partition=each) for each in range(1, 4)), record(4, partition=40))
    assert worker.deliver(worker.send()) == set(range(PARTITIONS))
    assert not worker.poison.restricts


def test_a_suspect_of_four_deaths_is_to_be_quarantined() -> None:
    for deaths in range(QUARANTINED_AFTER + 2):
        worker = Worker(lease(crashes=5, suspect=1, deaths=deaths))
        worker.hold(record(1), record(2))
        found = positions(worker.poison.proven(worker.order))
        assert found == ([1] if deaths >= QUARANTINED_AFTER else [])


@pytest.mark.parametrize(
    ("times", "seconds"), [(0, 30), (1, 60), (2, 120), (6, 1920), (7, 3600), (99, 3600)]
)
def test_a_quarantine_lasts_30_s_at_first_and_then_twice_as_long_up_to_an_hour(
    times: int, seconds: int
) -> None:
    assert quarantine(times).delay == timedelta(seconds=seconds)


def test_other_records_of_the_partition_of_a_quarantined_record_go_as_usual() -> None:
    worker = Worker(lease(crashes=0, suspect=1, deaths=TRIED_ALONE))
    assert not worker.holds_back(2)
    assert not worker.poison.hurries
    assert worker.holds_back(1)
    worker.hold(record(1))
    assert worker.choose() == {1: TRIED_ALONE}


def test_suspects_wait_a_few_seconds_for_long_deliveries_and_no_more() -> None:
    worker = Worker(lease(1), lease(2, suspect=21, deaths=1))
    worker.hold(record(1))
    worker.order.take(1)  # a delivery that takes long
    worker.hold(record(21, partition=2))
    assert worker.choose(10.0) == worker.choose(10.0 + ALONE_SECONDS - 0.1) == {}
    assert worker.holds_back(5, partition=3)
    assert worker.choose(10.0 + ALONE_SECONDS) == {21: 1}


def test_others_wait_a_few_seconds_for_suspects_and_then_these_for_others() -> None:
    worker = Worker(*suspects(9), lease(30))
    worker.hold(*(record(each, partition=each) for each in range(1, 10)), record(31, partition=30))
    assert len(worker.send()) == GROUP  # they take long
    assert worker.choose(ALONE_SECONDS - 0.1) == {}
    assert worker.holds_back(5, partition=3)
    assert worker.choose(ALONE_SECONDS) == {31: 0}
    assert not worker.holds_back(50, partition=50)
    assert worker.choose(2 * ALONE_SECONDS) == {}  # the ninth waits for the others
    assert worker.holds_back(50, partition=50)


def test_deaths_are_those_of_the_suspect_and_of_no_other_record() -> None:
    worker = Worker(lease(1, crashes=3, suspect=17, deaths=2), lease(2, crashes=3))
    worker.hold(record(18, partition=1), record(19, partition=2))
    assert worker.choose() == {19: 0}
    assert not worker.holds_back(18)  # it was not in flight
    worker.hold(record(17, partition=1))
    assert worker.choose() == {17: 2}


def test_a_delivery_that_ended_is_not_held_against_a_record_that_is_claimed_again() -> None:
    worker = Worker(lease(suspect=1, deaths=2))
    worker.hold(record(1, "a"))
    [refused] = worker.send()
    worker.order.answered(refused, delivered=False)
    worker.order.drop_key(refused)
    worker.poison.survived(worker.order)
    worker.hold(record(1, "a"))  # its retry
    assert not worker.holds_back(1)
