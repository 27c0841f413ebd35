"""The order per key: one record of a key in flight, the rest in order, nothing lost."""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from postroom.record import ClaimedRecord, Key
from postroom.store.base import HeldRecord, Pauses
from postroom.store.key_order import KeyOrder, divide
from tests.unit.relay.records import claim, positions, record

PARTITIONS = range(3)


def order_of(*records: HeldRecord) -> KeyOrder:
    order = KeyOrder()
    order.add(claim(*records))
    return order


# -- which record may be sent


def test_the_first_of_each_key_may_be_sent_the_oldest_first() -> None:
    order = order_of(record(1, "a"), record(2, "a"), record(3, "b"), record(4), record(5))
    assert positions(order.take(10)) == [1, 3, 4, 5]
    assert (order.take(10), positions(order.in_flight), list(order.sendable)) == (
        [],
        [1, 3, 4, 5],
        [],
    )


def test_only_what_is_allowed_is_sent() -> None:
    order = order_of(record(1, "a"), record(2, "b"), record(3, "c"))
    assert positions(order.take(1, lambda each: each.position != 1)) == [2]
    assert positions(order.take(9)) == [1, 3]


def test_a_record_is_held_until_it_is_settled() -> None:
    first = record(1, "a")
    order = order_of(first)
    order.take(1)
    order.answered(first, delivered=True)
    assert positions(order.held) == [1]
    order.add(claim(first))
    assert order.take(1) == []
    order.settled(first)
    assert (positions(order.held), order.partitions()) == ([], set())


def test_nothing_of_a_key_is_sent_after_a_refusal_until_the_key_is_dropped() -> None:
    first = record(1, "a")
    order = order_of(first, record(2, "a"), record(3, "b"))
    order.take(1)
    order.answered(first, delivered=False)
    assert positions(order.take(9)) == [3]
    order.drop_key(first)
    assert positions(order.held) == [3]


def test_a_lower_position_goes_first_unless_a_higher_one_is_in_flight() -> None:
    waiting = order_of(record(5, "a"), record(3, "a"), record(4, "a"))
    assert positions(waiting.take(1)) == [3]
    late = order_of(record(5, "a"))
    [five] = late.take(1)
    late.add(claim(record(3, "a"), record(9, "a"), record(4, "a")))
    assert late.take(9) == []
    late.answered(five, delivered=True)
    assert positions(late.take(9)) == [3]


def test_the_same_id_under_another_type_is_another_key() -> None:
    order = order_of(
        record(1, "a", aggregate_type="order"),
        record(2, "a", aggregate_type="invoice"),
        record(3, "a", aggregate_type=""),
        record(4, "a", aggregate_type=None),
    )
    assert positions(order.take(9)) == [1, 2, 3]


def test_a_record_without_a_key_never_waits_for_a_key_that_equals_its_position() -> None:
    order = order_of(record(1, "3"), record(2, "3"), record(3))
    assert positions(order.take(9)) == [1, 3]


def test_records_and_keys_are_counted_by_partition() -> None:
    order = order_of(record(1, partition=3), record(2, "a", partition=4), record(3, partition=3))
    order.add(claim(record(4, "a", partition=4)))
    assert [order.held_of[each] for each in (3, 4, 5)] == [2, 2, 0]
    assert [order.keys_of[each] for each in (3, 4, 5)] == [2, 1, 0]
    assert order.partitions() == {3, 4}
    order.take(1)
    assert (order.keys_of[3], order.held_of[3]) == (2, 2)


def test_firsts_with_followers_are_those_of_the_partition_in_flight_or_not() -> None:
    order = order_of(
        record(1, "a"),
        record(2, "a"),
        record(3, "b"),
        record(4, "c", partition=2),
        record(5, "c", partition=2),
        record(6, "d"),
        record(7, "d"),
    )
    order.take(1)
    assert positions(order.firsts_with_followers({1}).values()) == [1, 6]
    assert positions(order.firsts_with_followers({2}).values()) == [4]
    assert {key.aggregate_id for key in order.firsts_with_followers({1, 2})} == {"a", "c", "d"}


def test_followers_can_be_dropped_while_the_first_is_in_flight() -> None:
    first = record(1, "a")
    order = order_of(first, record(2, "a"), record(3, "a"))
    order.take(1)
    order.drop_followers(first)
    assert positions(order.held) == [1]
    order.answered(first, delivered=True)
    assert order.take(1) == []
    order.drop_followers(first)
    assert positions(order.held) == [1]


def test_all_that_waits_can_be_dropped_and_what_is_in_flight_stays() -> None:
    order = order_of(record(1, "a"), record(2, "a"), record(3, "b"), record(4))
    [first] = order.take(1)
    order.drop_waiting()
    assert (positions(order.held), positions(order.in_flight), list(order.sendable)) == (
        [1],
        [1],
        [],
    )
    order.answered(first, delivered=True)
    order.settled(first)
    assert (positions(order.held), order.partitions()) == ([], set())


def test_what_may_be_sent_can_be_looked_at_without_sending_it() -> None:
    order = order_of(record(1, "a"), record(2, "b"), record(3, "b"), record(4, "c"))
    assert positions(order.sendable) == [1, 2, 4]
    assert positions(order.in_flight) == []
    order.sent(next(each for each in order.sendable if each.position == 2))  # out of turn
    assert (positions(order.in_flight), positions(order.take(9))) == ([2], [1, 4])


def test_a_record_that_was_sent_is_unsettled_until_its_delivery_is_written() -> None:
    first = record(1, "a")
    order = order_of(first, record(2, "a"))
    assert not order.unsettled(first)
    order.take(1)
    order.returned(first)
    assert (positions(order.in_flight), order.unsettled(first)) == ([], False)
    assert order.take(0) == []
    assert order.take(1) == [first]
    assert order.unsettled(first)
    order.answered(first, delivered=True)
    assert order.unsettled(first)
    order.settled(first)
    assert not order.unsettled(first)


def test_a_record_that_was_refused_is_unsettled_until_it_is_dropped() -> None:
    first = record(1, "a")
    order = order_of(first, record(2, "a"))
    order.take(1)
    order.answered(first, delivered=False)
    assert order.unsettled(first)
    order.drop_key(first)
    assert not order.unsettled(first)
    order.add(claim(record(1, "a")))  # and though it is claimed again
    assert not order.unsettled(first)


# -- what is reached


def test_a_claim_says_what_is_reached_of_each_partition_that_it_has_read() -> None:
    order = KeyOrder()
    order.add(claim(record(3), record(7), record(5, partition=2), reached={1: 7, 2: 5}))
    assert order.reached == {1: 7, 2: 5}
    [nine] = [record(9)]
    order.add(claim(nine, reached={1: 9}))
    order.add(claim())
    order.take(9)
    order.answered(nine, delivered=True)
    order.settled(nine)
    assert order.reached == {1: 9, 2: 5}


DROPS: dict[str, tuple[Callable[[KeyOrder, HeldRecord], None], int]] = {
    "the key": (lambda order, first: order.drop_key(first), 0),
    "followers": (lambda order, first: order.drop_followers(first), 1),
    "what waits": (lambda order, first: order.drop_waiting(lambda each: each.partition == 1), 1),
}


@pytest.mark.parametrize(("drop", "reached"), DROPS.values(), ids=DROPS)
def test_a_partition_is_read_again_from_a_record_that_is_dropped(
    drop: Callable[[KeyOrder, HeldRecord], None], reached: int
) -> None:
    first = record(1, "a")
    order = KeyOrder()
    order.add(claim(first, record(2, "a"), record(3, "b", partition=2), reached={1: 2, 2: 3}))
    order.take(1)
    drop(order, first)
    assert order.reached == {1: reached, 2: 3}


def test_what_waits_without_a_lease_is_dropped_and_read_again() -> None:
    order = KeyOrder()
    records = [record(number, f"{number}", partition=number) for number in (1, 2, 3)]
    order.add(claim(*records, reached={1: 1, 2: 2, 3: 3}))
    order.take(1)
    order.drop_waiting(lambda each: each.partition != 3)
    assert positions(order.held) == [1, 3]  # the first is in flight
    assert order.reached == {1: 1, 2: 1, 3: 3}


# -- what a claim may send while keys are blocked


def blocked(position: int) -> dict[Key, int]:
    """Return that the record at a position blocks the key "a"."""
    return {Key("", "a"): position}


of_a = [record(number, "a") for number in range(1, 6)]
others = [record(4, "a"), record(5, "b"), record(6), record(7, "a", aggregate_type="order")]


@pytest.mark.parametrize(
    ("records", "was_due", "blocking", "passing", "waiting"),
    [
        pytest.param(of_a, {}, {}, [1, 2, 3, 4, 5], [], id="no key is blocked"),
        pytest.param(of_a, {}, blocked(3), [1, 2, 3], [4, 5], id="what is behind waits"),
        pytest.param(others, {}, blocked(3), [5, 6, 7], [4], id="other keys pass"),
        pytest.param(of_a[:2], {1}, blocked(3), [2], [1], id="a delayed record waits"),
        pytest.param(of_a[:2], {1}, blocked(1), [1], [2], id="unless it blocks the key itself"),
        pytest.param(of_a[:1], {1}, {}, [1], [], id="or no record does"),
    ],
)
def test_a_blocked_key_holds_back_its_later_records_and_delayed_ones(
    records: list[HeldRecord],
    was_due: set[int],
    blocking: dict[Key, int],
    passing: list[int],
    waiting: list[int],
) -> None:
    divided = divide(records, set(was_due), blocking, Pauses())
    assert [positions(each) for each in divided] == [passing, waiting, []]


def test_the_record_that_blocks_its_key_is_marked_and_no_other() -> None:
    records = [record(number, "a") for number in range(1, 4)]
    records[0].blocks_key = True  # of an earlier claim
    divide(records, set(), blocked(2), Pauses())
    assert [each.blocks_key for each in records] == [False, True, False]


# -- all of it at random, in front of a table


def partition_of(position: int, key: str | None) -> int:
    return position % 3 if key is None else ord(key) % 3


class OutboxTable(RuleBasedStateMachine):
    """An order in front of a table, which holds back the later records of blocked keys."""

    def __init__(self) -> None:
        super().__init__()
        self.order = KeyOrder()
        self.table: dict[int, ClaimedRecord] = {}
        self.in_flight: list[HeldRecord] = []
        self.delivered: list[HeldRecord] = []
        self.outcomes: list[tuple[HeldRecord, bool]] = []
        self.blocked: dict[Key, int] = {}
        self.last = 0

    @initialize(keys=st.lists(st.sampled_from(["a", "b", None]), max_size=8))
    def begin(self, keys: list[str | None]) -> None:
        for key in keys:
            self.put(key)

    @rule(key=st.sampled_from(["a", "b", "c", None]))
    def put(self, key: str | None) -> None:
        self.last += 1
        held = record(self.last, key, partition=partition_of(self.last, key))
        self.table[self.last] = held.record

    @rule(depth=st.integers(1, 5))
    def claim(self, depth: int) -> None:
        """Read the first records of each partition beyond what is reached."""
        found: list[ClaimedRecord] = []
        reached: dict[int, int] = {}
        for partition in PARTITIONS:
            rows = [each for each in self.table.values() if each.partition == partition]
            free = [each for each in rows if self.may_be_claimed(each)][:depth]
            found += free
            reached |= {each.partition: each.position for each in free}
        found.sort(key=lambda each: each.position)
        records = [HeldRecord(each, token=1) for each in found]
        for each in records:
            each.blocks_key = each.key is not None and self.blocked.get(each.key) == each.position
        self.order.add(claim(*records, reached=reached))

    @rule(limit=st.integers(1, 4))
    def take(self, limit: int) -> None:
        taken = self.order.take(limit)
        assert len(taken) <= limit
        self.in_flight += taken

    @precondition(lambda self: self.in_flight)
    @rule(which=st.integers(0, 9), delivered=st.booleans())
    def answer(self, which: int, delivered: bool) -> None:
        answered = self.in_flight.pop(which % len(self.in_flight))
        self.order.answered(answered, delivered=delivered)
        self.outcomes.append((answered, delivered))
        if delivered:
            self.delivered.append(answered)

    @precondition(lambda self: self.in_flight)
    @rule(which=st.integers(0, 9))
    def come_back_without_an_answer(self, which: int) -> None:
        self.order.returned(self.in_flight.pop(which % len(self.in_flight)))

    @rule()
    def settle(self) -> None:
        for answered, delivered in self.outcomes:
            self.write(answered, delivered)
        self.outcomes.clear()

    @precondition(lambda self: self.in_flight)
    @rule(which=st.integers(0, 9))
    def block_the_key_of_a_slow_record(self, which: int) -> None:
        slow = self.in_flight[which % len(self.in_flight)]
        if slow.key is not None:
            self.blocked[slow.key] = slow.position
            slow.blocks_key = True
        self.order.drop_followers(slow)

    @rule()
    def drop_what_waits(self) -> None:
        self.order.drop_waiting()

    @invariant()
    def one_record_of_a_key_is_in_flight(self) -> None:
        keys = [each.key for each in self.in_flight if each.key is not None]
        assert len(keys) == len(set(keys))
        assert set(self.order.in_flight) == set(self.in_flight)

    @invariant()
    def each_key_is_delivered_in_order_and_once(self) -> None:
        for key in {each.key for each in self.delivered if each.key is not None}:
            delivered = [each.position for each in self.delivered if each.key == key]
            assert delivered == sorted(set(delivered))

    @invariant()
    def what_is_in_flight_or_unsettled_is_held(self) -> None:
        known = [*self.in_flight, *(answered for answered, _ in self.outcomes)]
        assert set(known) <= set(self.order.held)
        counted = sum(self.order.held_of[partition] for partition in PARTITIONS)
        assert counted == len(self.order.held)

    @invariant()
    def nothing_below_what_is_reached_is_left_behind(self) -> None:
        for each in self.table.values():
            if each.position <= self.order.reached.get(each.partition, 0):
                assert self.holds(each) or self.is_blocked(each)

    def teardown(self) -> None:
        """Nothing is lost: in the end everything is delivered."""
        self.deliver_all(lambda: bool(self.in_flight))
        self.deliver_all(lambda: bool(self.table))
        assert (positions(self.order.held), self.order.partitions()) == ([], set())
        for counted in (self.order.held_of, self.order.keys_of):
            assert not any(counted.values())
        assert list(self.order.sendable) == []
        assert len({each.position for each in self.delivered}) == self.last

    def deliver_all(self, unfinished: Callable[[], bool]) -> None:
        for _ in range(3 * self.last + 3):
            if not unfinished():
                return
            self.claim(100)
            self.take(100)
            while self.in_flight:
                self.answer(0, True)
            self.settle()
        raise AssertionError("something is stuck")

    def may_be_claimed(self, each: ClaimedRecord) -> bool:
        above = each.position > self.order.reached.get(each.partition, 0)
        return above and not self.holds(each) and not self.is_blocked(each)

    def holds(self, each: ClaimedRecord) -> bool:
        return each.id in {held.id for held in self.order.held}

    def is_blocked(self, each: ClaimedRecord) -> bool:
        """Return whether a record waits for another one of its key."""
        blocker = None if each.key is None else self.blocked.get(each.key)
        return blocker not in (None, each.position)

    def write(self, answered: HeldRecord, delivered: bool) -> None:
        if not delivered:
            self.order.drop_key(answered)
            if answered.key is not None:
                self.blocked[answered.key] = answered.position
            return
        self.order.settled(answered)
        del self.table[answered.position]
        if answered.key is not None and self.blocked.get(answered.key) == answered.position:
            assert answered.blocks_key  # else nobody would release the key
            del self.blocked[answered.key]
            self.order.reached[answered.partition] = 0  # as the loop does


TestKeyOrderInFrontOfATable = OutboxTable.TestCase
TestKeyOrderInFrontOfATable.settings = settings(max_examples=40, stateful_step_count=30)
