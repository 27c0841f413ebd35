"""Samples: taken when it is time, once for all who ask, by a clock of the test."""

import asyncio
from datetime import timedelta
from typing import cast

import pytest

from postroom.console.samples import INTERVAL, KEPT, LONGEST, PART, WAIT_AFTER, Samples
from postroom.inspection import BlockedKeysPage, Failures, Inspector, Latency, Overview
from tests.support.waiting import eventually
from tests.unit.inspection.overviews import NOW, overview


class FakeInspector:
    """Counts how often it is asked, and lets time pass while it answers."""

    def __init__(self, takes: float = 0.0) -> None:
        self.now, self.takes, self.asked = 1000.0, takes, 0
        self.fails = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def clock(self) -> float:
        return self.now

    async def overview(self) -> Overview:
        self.asked += 1
        await self.may_answer.wait()
        if self.fails:
            raise OSError("away")
        self.now += self.takes
        return overview(
            ready=self.asked,
            waiting=1,
            parked=1,
            paused=1,
            oldest_pending=timedelta(seconds=7),
            in_per_minute=2.5,
            out_per_minute=3,
        )

    async def latency(self) -> Latency:
        return Latency(records=1, p50=timedelta(milliseconds=5), p99=None)

    async def failures(self) -> Failures:
        return Failures(groups=(), group_count=0, total=0, at_least=False)

    async def blocked_keys(self, *, limit: int) -> BlockedKeysPage:
        return BlockedKeysPage(keys=(), total=0, cursor=None)


def samples_of(fake: FakeInspector) -> Samples:
    return Samples(cast(Inspector, fake), fake.clock)


async def until_taken(samples: Samples, number: int) -> None:
    """Wait until so many samples were taken."""
    await eventually(lambda: len(samples.points) == number)


async def test_a_sample_is_kept_for_two_seconds() -> None:
    fake = FakeInspector()
    samples = samples_of(fake)
    first = await samples.latest()
    fake.now += INTERVAL - 0.1
    assert await samples.latest() is first
    assert fake.asked == 1
    fake.now += 0.1
    await samples.latest()
    await until_taken(samples, 2)
    assert await samples.latest() is not first
    assert fake.asked == 2


async def test_a_sample_that_is_far_too_old_is_not_shown() -> None:
    fake = FakeInspector()
    samples = samples_of(fake)
    first = await samples.latest()
    fake.now += INTERVAL + WAIT_AFTER
    assert await samples.latest() is not first


async def test_a_sample_that_takes_long_is_kept_for_longer() -> None:
    fake = FakeInspector(takes=0.4)
    samples = samples_of(fake)
    await samples.latest()
    fake.now += INTERVAL  # the first one may have had to connect
    await samples.latest()
    await until_taken(samples, 2)
    fake.now += 0.4 / PART - 0.1
    await samples.latest()
    assert fake.asked == 2
    fake.now += 0.1
    await samples.latest()
    await until_taken(samples, 3)


async def test_however_long_a_sample_takes_it_is_kept_for_half_a_minute() -> None:
    fake = FakeInspector(takes=6.0)
    samples = samples_of(fake)
    await samples.latest()
    for number in (2, 3):
        fake.now += LONGEST
        await samples.latest()
        await until_taken(samples, number)


async def test_after_a_change_a_page_waits_for_a_new_sample() -> None:
    fake = FakeInspector()
    samples = samples_of(fake)
    first = await samples.latest()
    samples.expire()
    assert await samples.latest() is not first
    assert fake.asked == 2


async def test_a_sample_that_began_before_a_change_is_not_shown() -> None:
    fake = FakeInspector()
    samples = samples_of(fake)
    fake.may_answer.clear()
    asking = asyncio.create_task(samples.latest())
    await eventually(lambda: fake.asked == 1)
    samples.expire()
    fake.may_answer.set()
    assert (await asking).overview.ready == 2


async def test_all_who_ask_at_once_get_one_sample() -> None:
    fake = FakeInspector()
    samples = samples_of(fake)
    found = await asyncio.gather(*(samples.latest() for _ in range(10)))
    assert fake.asked == 1
    assert len({id(each) for each in found}) == 1


async def test_while_a_sample_is_taken_all_get_the_last_one() -> None:
    fake = FakeInspector()
    samples = samples_of(fake)
    first = await samples.latest()
    fake.now += INTERVAL
    fake.may_answer.clear()
    for _ in range(3):
        assert await samples.latest() is first
    fake.may_answer.set()
    await until_taken(samples, 2)
    assert fake.asked == 2


async def test_after_a_failure_the_next_who_asks_tries_again() -> None:
    fake = FakeInspector()
    samples = samples_of(fake)
    fake.fails = True
    with pytest.raises(OSError, match="away"):
        await samples.latest()
    fake.fails = False
    assert (await samples.latest()).overview.ready == 2


async def test_a_database_that_stays_away_is_not_hidden_for_long() -> None:
    fake = FakeInspector()
    samples = samples_of(fake)
    first = await samples.latest()
    fake.fails = True
    fake.now += INTERVAL
    assert await samples.latest() is first
    fake.now += WAIT_AFTER
    with pytest.raises(OSError, match="away"):
        await samples.latest()


async def test_a_point_is_kept_of_each_of_the_last_samples() -> None:
    fake = FakeInspector()
    samples = samples_of(fake)
    for _ in range(KEPT + 5):
        await samples.latest()
        fake.now += INTERVAL + WAIT_AFTER
    assert len(samples.points) == KEPT
    point = samples.points[0]
    assert (point.at, point.pending, point.oldest) == (NOW, 6 + 3, 7.0)
    assert (point.in_per_minute, point.out_per_minute) == (2.5, 3)
    assert (point.p50, point.p99) == (0.005, None)
