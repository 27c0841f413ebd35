"""The loop and a key with many records: others pass it."""

from itertools import pairwise

import pytest

from tests.unit.relay.bench import Bench


def hot_key_with_others_behind(bench: Bench) -> None:
    """Fill a partition with records of one key, with a few of other keys behind them."""
    bench.store.put(*range(1, 401), key="hot")
    for number in range(2001, 2004):
        bench.store.put(number, key=f"other {number}")


@pytest.mark.parametrize("seconds", [0.01, 1.0])
async def test_a_key_that_fills_its_partition_is_blocked_if_others_wait_behind_it(
    seconds: float,
) -> None:
    bench = Bench(seconds=seconds)
    hot_key_with_others_behind(bench)
    bench.store.others_wait = {1}
    sent: list[int] = []
    bench.clock.at(3.5, lambda: sent.extend(bench.publisher.sent))
    await bench.run(5)
    slow = [each for each in bench.store.named("settle") if each.values["slow"]]
    assert slow
    assert 1 <= slow[0].at <= 2.5
    assert len(slow[0].values["slow"]) == 1
    assert {2001, 2002, 2003} <= set(sent)
    hot = [position for position in sent if position < 2000]
    assert hot == list(range(1, len(hot) + 1))  # in order, and none left out


async def test_a_key_that_fills_its_partition_is_not_blocked_if_no_others_wait() -> None:
    bench = Bench(seconds=0.01)
    bench.store.put(*range(1, 401), key="hot")
    await bench.run(5)
    asked = [each.at for each in bench.store.named("waiting_behind")]
    assert asked
    assert all(later - earlier >= 1 for earlier, later in pairwise(asked))
    assert [each for each in bench.store.named("settle") if each.values["slow"]] == []


async def test_others_that_come_later_pass_a_hot_key_too() -> None:
    bench = Bench(seconds=1)
    bench.store.put(*range(1, 401), key="hot")
    bench.store.put(5001, partition=2)  # so that the hot partition is not the only one
    bench.publisher.hangs.add(5001)
    bench.clock.at(4, lambda: bench.store.put(2001, key="other"))
    bench.clock.at(4, lambda: bench.store.others_wait.add(1))
    sent: list[int] = []
    bench.clock.at(8, lambda: sent.extend(bench.publisher.sent))
    await bench.run(9)
    assert 2001 in sent


async def test_a_hot_key_that_hangs_does_not_keep_back_other_partitions() -> None:
    bench = Bench()
    bench.store.put(*range(1, 401), key="hot")
    bench.publisher.hangs.add(1)
    bench.clock.at(2, lambda: bench.store.put(2001, partition=2))
    sent: list[int] = []
    bench.clock.at(30, lambda: sent.extend(bench.publisher.sent))
    await bench.run(31)
    assert 2001 in sent
