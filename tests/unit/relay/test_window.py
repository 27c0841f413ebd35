"""The window: one record of a key on its way, the rest in order, nothing lost."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from postroom.record import ClaimedRecord, Key
from postroom.relay.window import Window
from tests.unit.relay.records import positions, record

PARTITIONS = range(3)


def window_of(*records: ClaimedRecord) -> Window:
    window = Window()
    window.add(records)
    return window


def test_the_first_of_each_key_may_leave_the_oldest_first() -> None:
    window = window_of(record(1, "a"), record(2, "a"), record(3, "b"), record(4), record(5))
    assert positions(window.take(10)) == [1, 3, 4, 5]
    assert (window.take(10), window.in_flight, window.waiting) == ([], 4, False)


def test_no_more_leave_than_there_is_room_for() -> None:
    window = window_of(*(record(number) for number in range(1, 6)))
    assert [positions(window.take(2)) for _ in range(4)] == [[1, 2], [3, 4], [5], []]
    assert positions(window.take(0)) == []


def test_only_what_is_allowed_leaves() -> None:
    window = window_of(record(1, "a"), record(2, "b"), record(3, "c"))
    assert positions(window.take(1, lambda each: each.position != 1)) == [2]
    assert positions(window.take(9)) == [1, 3]


def test_the_next_of_a_key_may_leave_once_the_one_before_has_arrived() -> None:
    first = record(1, "a")
    window = window_of(first, record(2, "a"))
    window.take(1)
    window.landed(first, delivered=True)
    assert not window.flies(first)
    assert positions(window.take(1)) == [2]


def test_a_record_is_held_until_it_is_settled() -> None:
    first = record(1, "a")
    window = window_of(first)
    window.take(1)
    window.landed(first, delivered=True)
    assert list(window.held) == [1]
    window.add([first])
    assert window.take(1) == []
    window.settled(first)
    assert (list(window.held), window.partitions()) == ([], [])


def test_nothing_of_a_key_leaves_after_a_refusal_until_it_is_forgotten() -> None:
    first = record(1, "a")
    window = window_of(first, record(2, "a"), record(3, "b"))
    window.take(1)
    window.landed(first, delivered=False)
    assert positions(window.take(9)) == [3]
    window.forget(first)
    assert list(window.held) == [3]


def test_what_comes_back_without_an_answer_may_leave_again() -> None:
    first = record(1, "a")
    window = window_of(first, record(2, "a"))
    window.take(1)
    window.turn_back(first)
    assert (window.in_flight, positions(window.take(9))) == (0, [1])


def test_a_lower_position_goes_first_unless_a_higher_one_is_on_its_way() -> None:
    waiting = window_of(record(5, "a"), record(3, "a"), record(4, "a"))
    assert positions(waiting.take(1)) == [3]
    late = window_of(record(5, "a"))
    [five] = late.take(1)
    late.add([record(3, "a"), record(9, "a"), record(4, "a")])
    late.landed(five, delivered=True)
    assert positions(late.take(1)) == [3]


def test_the_same_id_under_another_type_is_another_key() -> None:
    window = window_of(
        record(1, "a", aggregate_type="order"),
        record(2, "a", aggregate_type="invoice"),
        record(3, "a", aggregate_type=""),
        record(4, "a", aggregate_type=None),
    )
    assert positions(window.take(9)) == [1, 2, 3]


def test_a_record_without_a_key_is_never_held_by_one_that_has_the_same_number() -> None:
    window = window_of(record(1, "1"), record(2, "1"), record(3))
    assert positions(window.take(9)) == [1, 3]


def test_it_counts_by_partition() -> None:
    window = window_of(record(1, partition=3), record(2, "a", partition=4), record(3, partition=3))
    window.add([record(4, "a", partition=4)])
    crowds = {partition: window.crowd(partition) for partition in (3, 4, 5)}
    assert [each.held for each in crowds.values()] == [2, 2, 0]
    assert [each.lines for each in crowds.values()] == [2, 1, 0]
    assert [each.free for each in crowds.values()] == [2, 1, 0]
    assert sorted(window.partitions()) == [3, 4]
    window.take(1)
    assert (crowds[3].free, crowds[3].held) == (1, 2)


def test_it_counts_what_has_come_to_an_end() -> None:
    window = window_of(record(1), record(2), record(3))
    one, two, three = window.take(3)
    window.landed(one, delivered=True)
    window.landed(two, delivered=False)
    window.turn_back(three)
    assert window.crowd(1).landed == 2


def test_what_is_slow_is_what_others_of_the_partition_wait_behind() -> None:
    window = window_of(record(1, "a"), record(2, "a"), record(3, "b"), record(4, "c", partition=2))
    window.add([record(5, "c", partition=2)])
    window.take(9)
    assert positions(list(window.slow(1))) == [1]
    assert window.crowd(1).free == 0


def test_followers_can_be_let_go_while_the_first_is_on_its_way() -> None:
    first = record(1, "a")
    window = window_of(first, record(2, "a"), record(3, "a"))
    window.take(1)
    window.forget_followers(first)
    assert list(window.held) == [1]
    window.landed(first, delivered=True)
    assert window.take(1) == []


def test_all_that_waits_can_be_let_go_and_what_is_on_its_way_stays() -> None:
    window = window_of(record(1, "a"), record(2, "a"), record(3, "b"), record(4))
    [first] = window.take(1)
    window.forget_waiting()
    assert (list(window.held), window.in_flight, window.waiting) == ([1], 1, False)
    window.landed(first, delivered=True)
    window.settled(first)
    assert (list(window.held), window.partitions()) == ([], [])


def test_what_waits_can_be_let_go_of_some_partitions_only() -> None:
    window = window_of(record(1, "a", partition=1), record(2, "b", partition=2))
    window.forget_waiting(lambda each: each.partition == 1)
    assert list(window.held) == [2]


def test_the_first_that_is_allowed_can_be_looked_at_without_sending_it() -> None:
    window = window_of(record(1, "a"), record(2, "b"))
    found = window.first(lambda each: each.position > 1)
    assert found is not None
    assert (found.position, window.in_flight) == (2, 0)
    assert window.first(lambda each: each.position > 2) is None


def partition_of(position: int, key: str | None) -> int:
    return position % 3 if key is None else ord(key) % 3


class Post(RuleBasedStateMachine):
    """A window in front of a table, which keeps the keys back that have a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.window = Window()
        self.table: dict[int, ClaimedRecord] = {}
        self.flying: list[ClaimedRecord] = []
        self.delivered: list[ClaimedRecord] = []
        self.outcomes: list[tuple[ClaimedRecord, bool]] = []
        self.gates: dict[Key, int] = {}
        self.last = 0

    @initialize(keys=st.lists(st.sampled_from(["a", "b", None]), max_size=8))
    def begin(self, keys: list[str | None]) -> None:
        for key in keys:
            self.put(key)

    @rule(key=st.sampled_from(["a", "b", "c", None]))
    def put(self, key: str | None) -> None:
        self.last += 1
        self.table[self.last] = record(self.last, key, partition=partition_of(self.last, key))

    @rule(depth=st.integers(1, 5))
    def claim(self, depth: int) -> None:
        free = [each for each in self.table.values() if self.may_be_claimed(each)]
        self.window.add(free[:depth])

    @rule(limit=st.integers(1, 4))
    def take(self, limit: int) -> None:
        taken = self.window.take(limit)
        assert len(taken) <= limit
        self.flying += taken

    @precondition(lambda self: self.flying)
    @rule(which=st.integers(0, 9), arrives=st.booleans())
    def land(self, which: int, arrives: bool) -> None:
        landed = self.flying.pop(which % len(self.flying))
        self.window.landed(landed, delivered=arrives)
        self.outcomes.append((landed, arrives))
        if arrives:
            self.delivered.append(landed)

    @precondition(lambda self: self.flying)
    @rule(which=st.integers(0, 9))
    def turn_back(self, which: int) -> None:
        self.window.turn_back(self.flying.pop(which % len(self.flying)))

    @rule()
    def settle(self) -> None:
        for landed, arrived in self.outcomes:
            self.write_down(landed, arrived)
        self.outcomes.clear()

    @precondition(lambda self: self.flying)
    @rule(which=st.integers(0, 9))
    def set_followers_aside(self, which: int) -> None:
        slow = self.flying[which % len(self.flying)]
        if slow.key is not None:
            self.gates[slow.key] = slow.position
        self.window.forget_followers(slow)

    @rule()
    def let_go_of_what_waits(self) -> None:
        self.window.forget_waiting()

    @invariant()
    def one_record_of_a_key_is_on_its_way(self) -> None:
        keys = [each.key for each in self.flying if each.key is not None]
        assert len(keys) == len(set(keys))
        assert self.window.in_flight == len(self.flying)
        assert all(self.window.flies(each) for each in self.flying)

    @invariant()
    def each_key_arrives_in_order_and_once(self) -> None:
        for key in {each.key for each in self.delivered if each.key is not None}:
            arrived = [each.position for each in self.delivered if each.key == key]
            assert arrived == sorted(set(arrived))

    @invariant()
    def what_is_on_its_way_or_unsettled_is_held(self) -> None:
        known = [*self.flying, *(landed for landed, _ in self.outcomes)]
        assert {each.position for each in known} <= set(self.window.held)
        counted = sum(self.window.crowd(partition).held for partition in PARTITIONS)
        assert counted == len(self.window.held)

    def teardown(self) -> None:
        """Nothing is lost: in the end everything arrives."""
        self.arrive(lambda: bool(self.flying))
        self.arrive(lambda: bool(self.table))
        assert (list(self.window.held), self.window.partitions()) == ([], [])
        for partition in PARTITIONS:
            crowd = self.window.crowd(partition)
            assert (crowd.held, crowd.lines, crowd.free) == (0, 0, 0)
        assert len({each.position for each in self.delivered}) == self.last

    def arrive(self, unfinished: Callable[[], bool]) -> None:
        for _ in range(3 * self.last + 3):
            if not unfinished():
                return
            self.claim(100)
            self.take(100)
            while self.flying:
                self.land(0, True)
            self.settle()
        raise AssertionError("something is stuck")

    def may_be_claimed(self, each: ClaimedRecord) -> bool:
        gate = None if each.key is None else self.gates.get(each.key)
        return each.position not in self.window.held and gate in (None, each.position)

    def write_down(self, landed: ClaimedRecord, arrived: bool) -> None:
        if not arrived:
            self.window.forget(landed)
            if landed.key is not None:
                self.gates[landed.key] = landed.position
            return
        self.window.settled(landed)
        del self.table[landed.position]
        if landed.key is not None and self.gates.get(landed.key) == landed.position:
            del self.gates[landed.key]


TestWindowInFrontOfATable = Post.TestCase
TestWindowInFrontOfATable.settings = settings(max_examples=60, stateful_step_count=30)
