"""Whatever happens, in whichever order: nothing overtakes, nothing is left behind."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.store.base import HeldRecord, Settlement
from tests.conformance.store.harnesses import postgres, sqlite
from tests.conformance.store.rig import (
    LEASE,
    MINUTE,
    ZERO,
    StoreHarness,
    StoreRig,
    attempt,
    first_of_each_key,
    of_key,
    tokens_of,
)
from tests.support.waiting import FULL

pytestmark = pytest.mark.no_cover  # others cover the same, for less time

KEYS = "ab"
WORKERS = ("ann", "bob")
HOUR = 60 * MINUTE

number = st.integers(0, 5)
steps = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(KEYS)),
    st.tuples(st.just("claim"), st.sampled_from(WORKERS)),
    st.tuples(st.just("claim"), st.sampled_from(WORKERS)),
    st.tuples(st.sampled_from(["deliver", "refuse", "fail", "let_go", "slow"]), number),
    st.tuples(st.sampled_from(["deliver", "refuse"]), number),
    st.tuples(st.sampled_from(["retry", "skip", "discard"]), number),
    st.tuples(st.sampled_from(["expire", "leave"]), st.sampled_from(WORKERS)),
)


class Story:
    """Two workers, an operator, and what they have done so far."""

    def __init__(self, rig: StoreRig) -> None:
        self.rig = rig
        self.put_so_far: list[str] = []
        self.flights: list[tuple[str, HeldRecord]] = []
        self.done: set[str] = set()
        """Delivered, discarded, or passed over."""

    async def play(self, plot: list[tuple[str, Any]]) -> None:
        for step, value in plot:
            await getattr(self, step)(value)
            assert await self.rig.store.cleaning.repair() == 0

    # -- the application

    async def put(self, key: str) -> None:
        name = f"{key}{1 + len(of_key(self.put_so_far, key))}"
        self.put_so_far.append(name)
        await self.rig.put(name, partition=KEYS.index(key) % 2)

    # -- the workers

    async def claim(self, worker: str) -> None:
        mine = [record for name, record in self.flights if name == worker]
        poll = await self.rig.poll(worker, busy={record.partition for record in mine})
        claim = await self.rig.store.claims.claim(tokens_of(poll), depth=3, held=mine)
        keys = {record.key for record in mine}
        leaving = [each for each in first_of_each_key(claim.records) if each.key not in keys]
        self.flights += [(worker, record) for record in leaving]
        await self.see_that_no_key_is_twice_on_its_way()

    async def deliver(self, which: int) -> None:
        if record := self.land(which):
            self.arrived(record)
            await self.rig.store.settlements.settle(Settlement(delivered=[record]))

    async def refuse(self, which: int) -> None:
        if record := self.land(which):
            delay = ZERO if which % 2 else MINUTE
            await self.rig.store.settlements.settle(
                Settlement(attempts=[attempt(record, delay=delay)])
            )

    async def fail(self, which: int) -> None:
        if record := self.land(which):
            await self.rig.store.settlements.settle(
                Settlement(attempts=[attempt(record, delay=None)])
            )

    async def let_go(self, which: int) -> None:
        if record := self.land(which):
            refused = [attempt(record, delay=None, holds=False)]
            await self.rig.store.settlements.settle(Settlement(attempts=refused))
            row = (await self.rig.rows()).get(record.record.event_type)
            if row is not None and row.status == "failed":
                self.done.add(record.record.event_type)

    async def slow(self, which: int) -> None:
        if self.flights:
            record = self.flights[which % len(self.flights)][1]
            await self.rig.store.settlements.settle(Settlement(slow=[record]))
            record.blocks_key = True

    async def expire(self, _: str) -> None:
        self.rig.later(2 * LEASE)

    async def leave(self, worker: str) -> None:
        """End, and start again: what was on its way is broken off."""
        self.flights = [flight for flight in self.flights if flight[0] != worker]
        await self.rig.store.leases.release(worker)

    # -- the operator

    async def retry(self, which: int) -> None:
        if name := await self.some_failed(which):
            await self.rig.operations.retry(await self.rig.ids(name))

    async def skip(self, which: int) -> None:
        if name := await self.some_failed(which):
            await self.rig.operations.skip(await self.rig.ids(name))
            self.done.add(name)

    async def discard(self, which: int) -> None:
        waiting = [row for row in (await self.rig.rows()).values() if row.status != "published"]
        if waiting:
            row = waiting[which % len(waiting)]
            await self.rig.operations.discard([row.id])
            self.done.add(row.event_type)

    # -- what has to hold

    def land(self, which: int) -> HeldRecord | None:
        return self.flights.pop(which % len(self.flights))[1] if self.flights else None

    async def some_failed(self, which: int) -> str | None:
        failed = [name for name, row in (await self.rig.rows()).items() if row.status == "failed"]
        return failed[which % len(failed)] if failed else None

    def arrived(self, record: HeldRecord) -> None:
        """See that nothing before it is still to come."""
        key, name = record.record.event_type[0], record.record.event_type
        line = of_key(self.put_so_far, key)
        overtaken = set(line[: line.index(name)]) - self.done
        assert name in self.done or not overtaken
        self.done.add(name)

    async def see_that_no_key_is_twice_on_its_way(self) -> None:
        valid = await self.leases()
        sent = [each for _, each in self.flights if (each.partition, each.token) in valid]
        assert max(Counter(record.key for record in sent).values(), default=0) <= 1

    async def leases(self) -> set[tuple[int, int]]:
        found = await self.rig.sql("SELECT partition, token FROM suite_outbox_leases")
        return {(row.partition, row.token) for row in found}

    async def end(self) -> None:
        """Everybody has died; somebody new comes, and the operator retries what has failed."""
        self.rig.later(HOUR)
        failed = [row.id for row in (await self.rig.rows()).values() if row.status == "failed"]
        await self.rig.operations.retry(failed)
        while batch := first_of_each_key((await self.rig.claim("zoe")).records):
            for record in batch:
                self.arrived(record)
            await self.rig.store.settlements.settle(Settlement(delivered=batch))
        assert {row.status for row in (await self.rig.rows()).values()} <= {"published"}
        assert await self.rig.gates() == {}
        assert await self.rig.store.cleaning.repair() == 0


class Stage:
    """A rig, and the loop that it lives in."""

    def __init__(self, runner: asyncio.Runner, harness: StoreHarness) -> None:
        self._runner = runner
        self._harness = harness

    def play(self, plot: list[tuple[str, Any]]) -> None:
        self._runner.run(self._play(plot))

    async def _play(self, plot: list[tuple[str, Any]]) -> None:
        rig = StoreRig(self._harness)
        await rig.clear()
        story = Story(rig)
        await story.play([("put", key) for key in 2 * KEYS] + plot)
        await story.end()


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    yield from _stage(sqlite(tmp_path_factory.mktemp("stories")))


@pytest.fixture(scope="module")
def on_postgres(postgres_url: str) -> Iterator[Stage]:
    yield from _stage(postgres(postgres_url))


def _stage(database: AbstractAsyncContextManager[StoreHarness]) -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        harness = runner.run(_enter(database))
        yield Stage(runner, harness)
        runner.run(_exit(database))


def _enter(
    database: AbstractAsyncContextManager[StoreHarness],
) -> Coroutine[Any, Any, StoreHarness]:
    return database.__aenter__()


def _exit(
    database: AbstractAsyncContextManager[StoreHarness],
) -> Coroutine[Any, Any, bool | None]:
    return database.__aexit__(None, None, None)


@pytest.mark.requirement("C16")
@settings(max_examples=100 if FULL else 10)
@given(plot=st.lists(steps, max_size=40))
def test_any_story_ends_well_on_sqlite(on_sqlite: Stage, plot: list[tuple[str, Any]]) -> None:
    on_sqlite.play(plot)


@pytest.mark.requirement("C16")
@settings(max_examples=50 if FULL else 6)
@given(plot=st.lists(steps, max_size=40))
def test_any_story_ends_well_on_postgres(on_postgres: Stage, plot: list[tuple[str, Any]]) -> None:
    on_postgres.play(plot)
