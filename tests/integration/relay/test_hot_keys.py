"""A hot key is blocked while its first record is answered, and its last one is sent."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import ClaimedRecord, OutboxRelay, Outcome, UntypedEvent
from postroom.publishers.base import DELIVERED
from postroom.store.base import Settlement
from postroom.store.claims import Claims
from postroom.store.settlement import Settlements
from postroom.testing import FakeClock
from tests.chaos.outbox import KIND, blocked_keys, keys_in
from tests.support.rows import all_delivered, rows, save, until
from tests.support.shop import outbox
from tests.support.waiting import eventually

HOT, A, OTHER = (key for key, _ in zip(keys_in(7), range(3), strict=False))
"""Keys of one partition."""


class Gates:
    """Holds back each record until its event type is let through, or everything is."""

    max_batch = 1
    max_in_flight = 3

    def __init__(self) -> None:
        self.started: list[str] = []
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._open = False

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        [name] = [record.event_type for record in records]
        self.started.append(name)
        if not self._open:
            await self._gates[name].wait()
        return [DELIVERED]

    def let_through(self, name: str) -> None:
        self._gates[name].set()

    def let_all_through(self) -> None:
        self._open = True
        for gate in self._gates.values():
            gate.set()

    async def answer(self, name: str, *, until_sent: str) -> None:
        """Have a record answered, and wait until the next of its key is sent."""
        self.let_through(name)
        await eventually(lambda: until_sent in self.started, f"{until_sent} is sent")


def happened(name: str, key: str) -> UntypedEvent:
    return UntypedEvent(event_type=name, aggregate_type=KIND, aggregate_id=key, payload={})


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture(params=["before the block", "before its commit", "after its commit"])
def blocking(
    request: pytest.FixtureRequest, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> asyncio.Event:
    """Have A1 be answered at that moment of a block; give what says that the block is there."""
    look, settle, blocked = Claims.waiting_behind, Settlements.settle, asyncio.Event()

    async def answer_at(moment: str) -> None:
        if moment == request.param and not blocked.is_set():
            await gates.answer("A1", until_sent="A2")

    async def looking(*args: Any, **options: Any) -> Any:
        found = await look(*args, **options)
        await answer_at("before the block")
        return found

    async def settling(self: Settlements, settlement: Settlement) -> Any:
        if not settlement.slow:
            return await settle(self, settlement)
        await answer_at("before its commit")
        written = await settle(self, settlement)
        await answer_at("after its commit")
        blocked.set()
        return written

    monkeypatch.setattr(Claims, "waiting_behind", looking)
    monkeypatch.setattr(Settlements, "settle", settling)
    return blocked


async def is_published(engine: AsyncEngine, name: str) -> bool:
    return any(row.delivered for row in await rows(engine) if row.event_type == name)


@pytest.mark.requirement("C16")
async def test_a_key_that_is_blocked_while_its_last_record_is_sent_is_free_when_that_is_delivered(
    database: AsyncEngine, gates: Gates, blocking: asyncio.Event
) -> None:
    clock = FakeClock()
    relay = OutboxRelay(
        outbox, database, gates, clock=clock, batch_size=5, poll_interval=timedelta(seconds=0.1)
    )
    hot = [happened(f"H{number}", HOT) for number in range(60)]
    a1, a2, a3 = (happened(f"A{number}", A) for number in (1, 2, 3))
    await save(database, hot[0], a1, a2, *hot[1:], happened("other", OTHER))
    async with relay.running():
        await eventually(lambda: {"H0", "A1"} <= set(gates.started), "both keys are in flight")

        def is_blocked() -> bool:
            clock.advance(timedelta(seconds=0.2))
            return blocking.is_set()

        await eventually(is_blocked, "the keys are blocked")
        await eventually(lambda: is_published(database, "A1"), "A1 is settled")
        gates.let_all_through()
        await until(database, all_delivered)
        await save(database, a3)
        await until(database, all_delivered)
        await eventually(lambda: is_empty(database), "no key is blocked")
    assert [name for name in gates.started if name.startswith("A")] == ["A1", "A2", "A3"]


async def is_empty(engine: AsyncEngine) -> bool:
    return not await blocked_keys(engine)
