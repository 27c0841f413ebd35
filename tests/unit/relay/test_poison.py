"""Poison: the record that breaks connections, and the record that kills processes."""

import logging
from collections.abc import Iterable

import pytest

from postroom.relay.leases import HeldLeases
from postroom.relay.poison import (
    ALONE_AFTER,
    ALONE_SECONDS,
    LEAST_COVERED,
    ONE_BY_ONE_AFTER,
    REFUSED_AFTER,
    REMEMBERED,
    Poison,
)
from postroom.store.base import HeldRecord, Lease
from postroom.store.key_order import KeyOrder
from tests.unit.relay.records import claim, many, positions, record

# -- records that break the connection


@pytest.fixture
def poison() -> Poison:
    return Poison(capacity=100, max_crashes=3)


def break_connection(poison: Poison, *records: HeldRecord) -> list[HeldRecord]:
    """Break the connection while records are in flight, after another one was answered."""
    poison.answered([record(1_000_000)])
    return poison.connection_broke(records)


def test_a_record_in_flight_at_one_break_is_sent_again_as_before(poison: Poison) -> None:
    one = record(1)
    assert not _was_there(poison, one)
    assert break_connection(poison, one) == []
    assert not poison.must_go_alone(one)
    assert _was_there(poison, one)


def test_a_record_in_flight_at_two_breaks_goes_alone(poison: Poison) -> None:
    one, other = record(1), record(2)
    break_connection(poison, one, other)
    break_connection(poison, one)
    assert (poison.must_go_alone(one), poison.must_go_alone(other)) == (True, False)
    assert not poison.must_go_alone(record(3))
    assert poison.first_to_go_alone([record(3), other, one]) is one
    assert poison.first_to_go_alone([record(3), other]) is None


def test_a_record_that_then_breaks_the_connection_twice_alone_is_guilty(poison: Poison) -> None:
    one = record(1)
    assert (ALONE_AFTER, REFUSED_AFTER) == (2, 4)
    assert [break_connection(poison, one) for _ in range(4)] == [[], [], [], [one]]
    assert not _was_there(poison, one)  # nothing more is held against it
    assert not poison.must_go_alone(one)


@pytest.mark.requirement("C17")
def test_an_outage_makes_no_record_guilty_however_often_it_is_tried(poison: Poison) -> None:
    one = record(1)
    assert [poison.connection_broke([one]) for _ in range(100)] == [[]] * 100
    assert not poison.must_go_alone(one)


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
    assert (poison.must_go_alone(one), poison.must_go_alone(other)) == (False, True)


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
    assert [poison.must_go_alone(each) for each in records[-4:]] == [False, True, True, True]


def test_a_break_makes_a_record_the_last_to_be_forgotten(poison: Poison) -> None:
    records = [record(number) for number in range(1, REMEMBERED + 1)]
    break_connection(poison, *records)
    break_connection(poison, records[0])
    break_connection(poison, record(REMEMBERED + 1))
    assert _was_there(poison, records[0])
    assert not _was_there(poison, records[1])


def _was_there(poison: Poison, suspect: HeldRecord) -> bool:
    """Return whether it is known that a record was in flight at a break."""
    return poison.least_suspicious(iter([suspect, record(2_000_000)])) is not suspect


# -- records that kill the process


class Worker:
    """What one process knows of the partitions that it leases; all of it is gone when it dies."""

    def __init__(
        self, *leases: Lease, capacity: int = 100, max_crashes: int = 3, room: int = 1000
    ) -> None:
        self.leases = HeldLeases(30.0)
        self.order = KeyOrder()
        self.poison = Poison(capacity, max_crashes)
        self.room = room
        self.poll(*leases)

    def poll(self, *leases: Lease) -> None:
        self.leases.polled(leases, asked_at=0.0)
        self.poison.look_at(self.leases)

    def hold(self, *records: HeldRecord) -> None:
        self.order.add(claim(*records))

    def choose(self, now: float = 0.0) -> dict[int, int]:
        """Return the positions that are chosen, with how often their delivery will have begun."""
        chosen = self.poison.choose(self.order, self.leases, self.room, now)
        return {each.position: begun for each, begun in chosen.items()}

    def send(self) -> list[HeldRecord]:
        """Send what is chosen, each record alone."""
        chosen = self.poison.choose(self.order, self.leases, self.room)
        for each in chosen:
            self.order.take(1, lambda other, each=each: other is each)  # type: ignore[misc]
            self.poison.sent(each, chosen[each])
        return list(chosen)

    def deliver(self, records: Iterable[HeldRecord]) -> list[int]:
        """Note that records were delivered; return the partitions to serve as usual again."""
        for each in records:
            self.order.answered(each, delivered=True)
            self.order.settled(each)
        return self.poison.survived(self.order)

    def count(self) -> int:
        """Deliver everything that is sent one at a time; return how many records that were."""
        count = 0
        while sent := self.send():
            count += len(sent)
            self.deliver(sent)
        return count


def lease(
    partition: int = 1, *, crashes: int = 2, suspect: int | None = None, begun: int = 0
) -> Lease:
    """Return the lease of a partition whose last holders died."""
    return Lease(
        partition=partition, token=1, crash_count=crashes, suspect=suspect, suspect_crashes=begun
    )


@pytest.mark.requirement("E1")
@pytest.mark.parametrize(("crashes", "one_by_one"), [(0, False), (1, False), (2, True), (3, True)])
def test_sending_one_by_one_begins_with_the_second_crash(crashes: int, one_by_one: bool) -> None:
    worker = Worker(lease(crashes=crashes), lease(2, crashes=1))
    assert worker.poison.survived(worker.order) == []  # before a record was claimed
    worker.hold(record(1), record(2, partition=2))
    assert ONE_BY_ONE_AFTER == 2
    assert worker.poison.may_send(record(1).partition) is not one_by_one
    assert worker.poison.may_send(2)  # its last holder did not die twice
    assert worker.choose() == ({1: 1} if one_by_one else {})


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
    assert worker.choose() == {2: 1}


def test_a_record_whose_lease_is_lost_or_about_to_end_is_not_chosen() -> None:
    worker = Worker(lease(1), lease(2))
    worker.hold(record(1, token=9), record(2), record(3, partition=2))
    assert list(worker.choose()) == [2, 3]
    assert worker.choose(now=29.0) == {}


@pytest.mark.parametrize(
    ("capacity", "leases", "covered"),
    [(1, 1, 16), (8, 1, 16), (100, 1, 200), (100, 4, 50), (100, 3, 68), (100, 64, 16)],
)
def test_sending_one_by_one_covers_twice_what_one_process_may_have_held_and_sixteen_at_least(
    capacity: int, leases: int, covered: int
) -> None:
    held = [lease(each, crashes=2 if each == 1 else 0) for each in range(1, leases + 1)]
    worker = Worker(*held, capacity=capacity)
    worker.hold(*many(500))
    assert LEAST_COVERED == 8
    assert worker.count() == covered
    assert worker.poison.may_send(record(1).partition)


def test_sending_one_by_one_ends_by_itself_and_names_the_partitions_whose_crashes_to_clear() -> (
    None
):
    worker = Worker(lease(1), lease(2, crashes=3), capacity=1)
    worker.hold(*many(20, partition=1), *many(20, partition=2, first=101))
    ended: list[list[int]] = []
    for _ in range(16):
        worker.poll(lease(1), lease(2, crashes=3))  # does not start the count again
        ended.append(worker.deliver(worker.send()))
    assert ended == [[]] * 15 + [[1, 2]]
    assert worker.choose() == {}


def test_sending_one_by_one_ends_when_all_records_of_a_partition_are_delivered() -> None:
    worker = Worker(lease(1), lease(2))
    worker.hold(*many(2, partition=1), *many(3, partition=2, first=11))
    assert [worker.deliver(worker.send()) for _ in range(3)] == [[], [1], [2]]


@pytest.mark.parametrize("polled", [[lease(1, crashes=1), lease(2)], [lease(2)]])
def test_sending_one_by_one_ends_when_a_worker_is_alive_or_the_lease_is_gone(
    polled: list[Lease],
) -> None:
    worker = Worker(lease(1), lease(2))
    worker.poll(*polled)
    assert worker.poison.may_send(record(1, partition=1).partition)
    assert not worker.poison.may_send(record(2, partition=2).partition)


def test_sending_one_by_one_that_begins_again_does_not_end_before_a_record_was_claimed() -> None:
    worker = Worker(lease())
    worker.hold(*many(2))
    worker.deliver(worker.send())
    worker.order.drop_waiting()
    worker.poll()  # another worker takes the partition, and dies
    worker.poll(lease(crashes=3))
    assert worker.poison.survived(worker.order) == []


def test_a_record_that_comes_back_without_an_answer_is_not_blamed_but_sent_again() -> None:
    worker = Worker(lease())
    worker.hold(record(1))
    [sent] = worker.send()
    worker.order.returned(sent)
    worker.poison.survived(worker.order)
    worker.poll(lease(suspect=1, begun=1))  # as it was written before it was sent
    assert worker.choose() == {1: 1}


def test_the_begin_and_the_end_of_sending_one_by_one_are_logged_as_warnings(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "postroom.relay"):
        worker = Worker(lease(1), lease(2), lease(3, crashes=0), capacity=1)
        assert [each.levelname for each in caplog.records] == ["WARNING"]
        assert "workers died while they held 2 partitions. The next 32 records" in caplog.text
        caplog.clear()
        worker.poll(lease(1), lease(2), lease(3, crashes=0))
        worker.hold(*many(16, partition=1), *many(16, partition=2, first=101))
        for _ in range(15):
            worker.deliver(worker.send())
        assert caplog.records == []
        worker.deliver(worker.send())
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    assert "no worker died since" in caplog.text


# -- the record whose delivery did not end


def test_a_record_whose_delivery_did_not_end_goes_first() -> None:
    worker = Worker(lease(suspect=3, begun=1))
    worker.hold(*many(5))
    assert worker.choose() == {3: 2}


def test_a_record_whose_delivery_did_not_end_goes_alone_in_the_process() -> None:
    worker = Worker(lease(1, suspect=2, begun=1), lease(2), lease(3, suspect=21, begun=1))
    worker.hold(record(1), record(2), record(11, partition=2), record(21, partition=3))
    order: list[list[int]] = []
    while sent := worker.send():
        order.append(positions(sent))
        assert worker.choose() == {}
        worker.deliver(sent)
    assert order[:2] in ([[2], [21]], [[21], [2]])
    assert order[2:] == [[1, 11]]


def test_a_record_that_goes_alone_waits_a_few_seconds_for_long_deliveries_and_no_more() -> None:
    worker = Worker(lease(1), lease(2, suspect=21, begun=1))
    worker.hold(record(1))
    worker.order.take(1)  # a delivery that takes long
    worker.hold(record(21, partition=2))
    assert worker.choose(10.0) == worker.choose(10.0 + ALONE_SECONDS - 0.1) == {}
    assert not worker.poison.may_send(record(5, partition=3).partition)
    assert worker.choose(10.0 + ALONE_SECONDS) == {21: 2}


def test_others_wait_a_few_seconds_for_a_long_delivery_that_goes_alone_and_no_more() -> None:
    worker = Worker(lease(1, suspect=1, begun=1), lease(2))
    worker.hold(record(1), record(11, partition=2))
    assert positions(worker.send()) == [1]
    assert worker.choose(ALONE_SECONDS - 0.1) == {}
    assert not worker.poison.may_send(record(5, partition=3).partition)
    assert worker.choose(ALONE_SECONDS) == {11: 1}
    assert worker.poison.may_send(record(5, partition=3).partition)


@pytest.mark.parametrize("max_crashes", [1, 2, 3, 5])
def test_a_record_fails_after_max_crashes_deliveries_that_did_not_end(max_crashes: int) -> None:
    begun = 0
    for _ in range(max_crashes):
        worker = Worker(lease(suspect=1, begun=begun), max_crashes=max_crashes)
        worker.hold(record(1))
        begun = worker.choose()[1]
        assert not worker.poison.kills(begun)
    worker = Worker(lease(suspect=1, begun=begun), max_crashes=max_crashes)
    worker.hold(record(1))
    assert begun == max_crashes
    assert worker.poison.kills(worker.choose()[1])


def test_crashes_are_those_of_the_suspect_and_of_no_other_record() -> None:
    worker = Worker(lease(1, crashes=3, suspect=17, begun=2), lease(2, crashes=3))
    worker.hold(record(18, partition=1), record(19, partition=2))
    assert worker.choose() == {18: 1, 19: 1}
    worker.hold(record(17, partition=1))
    assert worker.choose() == {17: 3}


def test_a_delivery_that_ended_is_not_held_against_a_record_that_is_claimed_again() -> None:
    worker = Worker(lease(suspect=1, begun=2), capacity=1)
    worker.hold(record(1, "a"), record(2, "b"))
    [refused] = worker.send()
    worker.order.answered(refused, delivered=False)
    worker.order.drop_key(refused)
    worker.poison.survived(worker.order)
    worker.hold(record(1, "a"))  # its retry; the lease says what it said
    worker.deliver(worker.send())
    assert worker.choose() == {1: 1}
