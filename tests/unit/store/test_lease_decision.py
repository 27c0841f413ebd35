"""Which partitions a worker keeps, releases and takes."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from postroom.record import PARTITIONS
from postroom.store.lease_decision import Decision, decide

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
        SimpleNamespace(
            partition=each,
            worker=holders.get(each),
            has_work=each in work,
            is_expired=each in expired,
            is_present=True,
            due_in=None,
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
    return decide(rows, ANN, busy, surplus, take=take)


def test_a_worker_that_is_alone_wants_everything_that_has_work() -> None:
    decision = for_ann(look(work=[1, 2, 3], ann=[1]))
    assert (decision.keep, decision.take, decision.release) == ({1}, {2, 3}, set())
    assert decision.poll.share == PARTITIONS
    assert decision.room >= 2


def test_a_worker_that_is_alone_may_take_all_partitions_when_one_has_work() -> None:
    decision = decide(look(work=[1], ann=[1, 2]), ANN, (), (), take=True, all_if_alone=True)
    everything = set(range(8))
    assert (decision.keep, decision.take) == ({1, 2}, everything - {1, 2})
    assert decision.room >= 6


@pytest.mark.parametrize(("work", "others"), [([], 0), ([1], 1)], ids=["no work", "not alone"])
def test_otherwise_it_takes_what_has_work(work: list[int], others: int) -> None:
    found = look(work=work, ann=[2], others=others)
    decision = decide(found, ANN, (), (), take=True, all_if_alone=True)
    assert (decision.take, decision.release) == (set(work), {2})


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
