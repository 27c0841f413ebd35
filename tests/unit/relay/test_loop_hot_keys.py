"""The loop and a key with many records: others pass it."""

from itertools import pairwise

import pytest

from tests.unit.relay.faked_loop import FakedLoop


def hot_key_with_others_behind(faked: FakedLoop) -> None:
    """Fill a partition with records of one key, with a few of other keys behind them."""
    faked.store.put(*range(1, 401), key="hot")
    for number in range(2001, 2004):
        faked.store.put(number, key=f"other {number}")


@pytest.mark.parametrize("seconds", [0.01, 1.0])
async def test_a_key_that_fills_its_partition_is_blocked_if_others_wait_behind_it(
    seconds: float,
) -> None:
    faked = FakedLoop(seconds=seconds)
    hot_key_with_others_behind(faked)
    faked.store.others_wait = {1}
    sent: list[int] = []
    faked.clock.at(3.5, lambda: sent.extend(faked.publisher.sent))
    await faked.run(5)
    slow = [each for each in faked.store.named("settle") if each.values["slow"]]
    assert slow
    assert 1 <= slow[0].at <= 2.5
    assert len(slow[0].values["slow"]) == 1
    assert {2001, 2002, 2003} <= set(sent)
    hot = [position for position in sent if position < 2000]
    assert hot == list(range(1, len(hot) + 1))  # in order, and none left out


async def test_a_key_that_fills_its_partition_is_not_blocked_if_no_others_wait() -> None:
    faked = FakedLoop(seconds=0.01)
    faked.store.put(*range(1, 401), key="hot")
    await faked.run(5)
    asked = [each.at for each in faked.store.named("waiting_behind")]
    assert asked
    assert all(later - earlier >= 1 for earlier, later in pairwise(asked))
    assert [each for each in faked.store.named("settle") if each.values["slow"]] == []


async def test_others_that_come_later_pass_a_hot_key_too() -> None:
    faked = FakedLoop(seconds=1)
    faked.store.put(*range(1, 401), key="hot")
    faked.store.put(5001, partition=2)  # so that the hot partition is not the only one
    faked.publisher.hangs.add(5001)
    faked.clock.at(4, lambda: faked.store.put(2001, key="other"))
    faked.clock.at(4, lambda: faked.store.others_wait.add(1))
    sent: list[int] = []
    faked.clock.at(8, lambda: sent.extend(faked.publisher.sent))
    await faked.run(9)
    assert 2001 in sent


async def test_a_hot_key_that_hangs_does_not_keep_back_other_partitions() -> None:
    faked = FakedLoop()
    faked.store.put(*range(1, 401), key="hot")
    faked.publisher.hangs.add(1)
    faked.clock.at(2, lambda: faked.store.put(2001, partition=2))
    sent: list[int] = []
    faked.clock.at(30, lambda: sent.extend(faked.publisher.sent))
    await faked.run(31)
    assert 2001 in sent
