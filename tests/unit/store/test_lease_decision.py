"""Which partitions a worker keeps, releases and takes."""

from collections.abc import Collection
from typing import Any

import pytest

from postroom.record import PARTITIONS
from postroom.store.base import Pauses
from postroom.store.lease_decision import TRIED_AFTER, Decision, Look, Loss, decide, judge

ANN, BOB = "ann", "bob"


def look(
    *,
    work: Collection[int] = (),
    ann: Collection[int] = (),
    bob: Collection[int] = (),
    expired: Collection[int] = (),
    others: int = 0,
) -> list[Any]:
    """Make what a look at eight partitions returns."""
    holders = dict.fromkeys(ann, ANN) | dict.fromkeys(bob, BOB)
    return [
        Look(
            partition=each,
            worker=holders.get(each),
            leased_until=None,
            has_work=each in work,
            due_in=None,
            is_expired=each in expired,
            is_present=True,
            others=others,
        )
        for each in range(8)
    ]


def for_ann(
    rows: list[Any],
    *,
    busy: Collection[int] = (),
    surplus: Collection[int] = (),
    take: bool = True,
) -> Decision:
    return decide(rows, ANN, busy, surplus, pauses=Pauses(), take=take)


def test_a_worker_that_is_alone_wants_everything_that_has_work() -> None:
    decision = for_ann(look(work=[1, 2, 3], ann=[1]))
    assert (decision.keep, decision.take, decision.release) == ({1}, {2, 3}, set())
    assert decision.poll.share == PARTITIONS
    assert decision.room >= 2


def test_a_worker_that_is_alone_may_take_all_partitions_when_one_has_work() -> None:
    decision = decide(
        look(work=[1], ann=[1, 2]), ANN, (), (), pauses=Pauses(), take=True, all_if_alone=True
    )
    everything = set(range(8))
    assert (decision.keep, decision.take) == ({1, 2}, everything - {1, 2})
    assert decision.room >= 6


@pytest.mark.parametrize(("work", "others"), [([], 0), ([1], 1)], ids=["no work", "not alone"])
def test_otherwise_it_takes_what_has_work(work: list[int], others: int) -> None:
    found = look(work=work, ann=[2], others=others)
    decision = decide(found, ANN, (), (), pauses=Pauses(), take=True, all_if_alone=True)
    assert (decision.take, decision.release) == (set(work), {2})


def one_of_two(rows: list[Any], busy: Collection[int] = ()) -> Decision:
    """Decide for ann where only one of the workers delivers."""
    return decide(
        rows, ANN, busy, (), pauses=Pauses(), take=True, all_if_alone=True, one_delivers=True
    )


def test_where_one_delivers_a_worker_stands_by_while_another_one_leases_most() -> None:
    decision = one_of_two(look(work=[1, 7], bob=range(6)))
    assert (decision.take, decision.writes, decision.poll.active) == (set(), False, BOB)


def test_where_one_delivers_it_takes_over_from_one_that_is_gone_or_only_finishes() -> None:
    of_the_dead = one_of_two(look(work=[1], bob=range(8), expired=range(8)))
    assert (of_the_dead.take, of_the_dead.poll.active) == (set(range(8)), None)
    rest = one_of_two(look(work=[1, 7], bob=[1, 2]))
    assert (rest.take, rest.poll.active) == (set(range(8)), None)


def test_where_one_delivers_the_other_one_finishes_what_is_busy_and_claims_no_more() -> None:
    decision = one_of_two(look(work=[1, 7], ann=[6, 7], bob=range(6)), busy=[7])
    assert (decision.keep, decision.release, decision.take) == ({7}, {6}, set())
    assert decision.poll.share == 0


def test_workers_divide_the_partitions_with_work_and_round_up() -> None:
    decision = for_ann(look(work=range(7), others=1))
    assert (decision.poll.share, decision.room) == (4, 4)


def test_what_a_worker_holds_already_counts_for_its_share() -> None:
    decision = for_ann(look(work=range(8), ann=[0, 1, 2], others=1))
    assert decision.room == 1


@pytest.mark.parametrize("held", [4, 6])
def test_a_worker_with_its_share_takes_nothing_more(held: int) -> None:
    decision = for_ann(look(work=range(8), ann=range(held), others=1))
    assert decision.room == 0
    assert decision.keep == set(range(held))


def test_what_has_run_out_is_taken_in_addition_to_the_share() -> None:
    rows = look(work=range(8), ann=range(4), bob=range(4, 8), expired=[4, 5], others=1)
    assert for_ann(rows).room == 2
    without_work = for_ann(look(work=[0], ann=[0], bob=[5], expired=[5], others=1))
    assert (without_work.room, without_work.take) == (0, set())


def test_what_a_dead_worker_held_is_taken_and_it_shares_no_work_any_more() -> None:
    rows = look(work=range(8), ann=range(4), bob=range(4, 8), others=1)
    decision = decide(rows, ANN, (), (), {BOB}, pauses=Pauses(), take=True)
    assert decision.poll.share == PARTITIONS
    assert decision.room >= 4
    assert {loss.at for loss in decision.lost} == {4, 5, 6, 7}
    assert decision.writes


# -- what deaths are blamed on


def row_of(partition: int, worker: str | None = BOB, **values: Any) -> Look:
    return Look(partition, worker, None, True, None, True, False, 0)._replace(**values)


def test_a_death_counts_for_each_partition_of_the_worker_and_for_what_it_sent_with_care() -> None:
    rows = [row_of(1, crash_count=1), row_of(2, crash_count=2, suspect_sent=True), row_of(3, ANN)]
    losses, innocent = judge(rows, rows[:2])
    assert losses == [Loss(1, BOB, crashes=2, blamed=0), Loss(2, BOB, crashes=3, blamed=1)]
    assert innocent == set()


def test_a_death_without_a_suspect_in_flight_clears_other_partitions_and_its_own_tried_ones() -> (
    None
):
    tried = row_of(1, crash_count=TRIED_AFTER, suspect_crashes=1)
    others = [row_of(2, ANN, crash_count=1), row_of(3, None, suspect_crashes=3), row_of(4, ANN)]
    losses, innocent = judge([tried, *others], [tried])
    assert losses == [Loss(1, BOB, crashes=0, blamed=0)]
    assert innocent == {2, 3}


def test_a_death_with_a_suspect_in_flight_is_blamed_on_it_alone() -> None:
    suspect = row_of(1, crash_count=5, suspect_crashes=3, suspect_sent=True)
    waits = row_of(2, crash_count=5, suspect_crashes=1)
    other = row_of(3, ANN, crash_count=1, suspect_crashes=3)
    losses, innocent = judge([suspect, waits, other], [suspect, waits])
    assert losses == [Loss(1, BOB, crashes=6, blamed=4), Loss(2, BOB, crashes=6, blamed=1)]
    assert innocent == set()


def test_a_death_that_no_suspect_explains_clears_what_its_worker_had_quarantined() -> None:
    quarantined = row_of(1, suspect_crashes=3)
    assert judge([quarantined], [quarantined]) == ([Loss(1, BOB, crashes=1, blamed=0)], set())


def test_a_partition_without_work_is_released_unless_it_is_busy() -> None:
    decision = for_ann(look(work=[0], ann=[0, 1, 2]), busy=[2])
    assert (decision.keep, decision.release) == ({0, 2}, {1})


def test_surplus_is_released_and_not_taken_back_unless_it_is_busy() -> None:
    decision = for_ann(look(work=range(4), ann=range(4), others=1), busy=[3], surplus=[2, 3])
    assert (decision.keep, decision.release) == ({0, 1, 3}, {2})
    assert decision.take == set()


def test_without_take_only_busy_partitions_are_kept() -> None:
    decision = for_ann(look(work=range(4), ann=range(3)), busy=[1], take=False)
    assert (decision.keep, decision.release, decision.take) == ({1}, {0, 2}, set())


def test_a_worker_with_nothing_to_do_writes_nothing() -> None:
    assert not for_ann(look(bob=[1, 2])).writes
    assert not for_ann([]).writes


@pytest.mark.parametrize("rows", [look(work=[1]), look(ann=[1]), look(work=[1], bob=[1])])
def test_work_or_a_lease_is_written_about(rows: list[Any]) -> None:
    assert for_ann(rows).writes
