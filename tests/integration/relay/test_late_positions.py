"""A position that is lower than others, and that a commit makes visible after them.

A claim need not read again what the one before has read. A transaction that was open meanwhile may
have put a record there, and a later record of the same key may follow at once.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from postroom import OutboxRelay, RetrySchedule, Status, UntypedEvent
from postroom.operations import Operations
from postroom.store.base import Claim
from postroom.store.claims import Claims
from postroom.testing import FakeClock
from tests.chaos.outbox import KIND, keys_in
from tests.support.commit_order import wait_until_blocked
from tests.support.gated_publisher import GatedPublisher, running
from tests.support.positions import go_on_from, lose_everything
from tests.support.rows import all_delivered, rows, save, until
from tests.support.shop import outbox
from tests.support.waiting import eventually

HOUR = timedelta(hours=1)
A, B, FIRST = islice(keys_in(7), 3)
"""Keys of one partition."""
GATE = 4711
"""An advisory lock that a trigger waits for."""
FUNCTION = f"""
    CREATE FUNCTION wait_at_the_gate() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_advisory_xact_lock_shared({GATE}); RETURN NEW; END $$
"""
TRIGGER = """
    CREATE TRIGGER gate BEFORE INSERT ON outbox FOR EACH ROW
    WHEN (NEW.event_type = 'A1') EXECUTE FUNCTION wait_at_the_gate()
"""
LOCK = f"SELECT pg_advisory_lock({GATE})"
OPEN = "SELECT pg_advisory_unlock_all()"
REMOVE = "DROP TRIGGER gate ON outbox", "DROP FUNCTION wait_at_the_gate()"


SURE = pytest.mark.parametrize("sure", [False, True], ids=["lately", "long ago"])
"""When the relay has read what is there: just now, or several polls ago."""


class StoppedClock(FakeClock):
    """Stands still but for what tests advance it by."""

    def monotonic(self) -> float:
        return self._shift.total_seconds()

    def shift(self) -> timedelta:
        return timedelta()


class BusyRelay:
    """A relay that has just read everything: it reads on from there, until its clock moves."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.claims = 0
        self.slow = False
        self.clock = StoppedClock()
        self.publisher = GatedPublisher("B1")
        self.relay = OutboxRelay(
            outbox,
            engine,
            self.publisher,
            clock=self.clock,
            poll_interval=HOUR,
            lease=HOUR,
            retry=RetrySchedule.seconds(HOUR.total_seconds(), forever=True),
            listen=None,
        )

    def claimed(self, claim: Claim) -> None:
        """Make claims that find B1 long ones; a while passes before all is read again."""
        self.claims += 1
        if self.slow or "B1" in [each.record.event_type for each in claim.records]:
            self.clock.advance(timedelta(seconds=0.1))

    def has_claimed(self, before: int) -> bool:
        return self.claims > before

    async def works_for_a_while(self, engine: AsyncEngine) -> None:
        """Have it find records and ask for writers so often that it is sure of what it has read."""
        self.slow = True
        for number in range(8):
            claims = self.claims
            await save(engine, happened(f"more {number}", FIRST))
            self.clock.advance(timedelta(seconds=1.1))
            await eventually(partial(self.has_claimed, claims), "the relay claims")
            await is_sent(self, f"more {number}")
        self.slow = False

    async def delivers(self, engine: AsyncEngine) -> list[str]:
        """Let time pass until all is delivered; give what was sent of key A, in order."""
        self.publisher.gate.set()

        def so(found: Any) -> bool:
            self.clock.advance(timedelta(seconds=0.2))
            return all_delivered(found)

        await until(engine, so)
        return [each for each in self.publisher.started if each.startswith("A")]


@pytest.fixture
def busy(database: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> BusyRelay:
    busy, claim = BusyRelay(database), Claims.claim

    async def noted(*args: Any, **options: Any) -> Claim:
        found = await claim(*args, **options)
        busy.claimed(found)
        return found

    monkeypatch.setattr(Claims, "claim", noted)
    return busy


def happened(name: str, key: str) -> UntypedEvent:
    return UntypedEvent(event_type=name, aggregate_type=KIND, aggregate_id=key, payload={})


@asynccontextmanager
async def saving(engine: AsyncEngine, event: UntypedEvent) -> AsyncIterator[AsyncSession]:
    """Insert an event, and leave the transaction open; its commit wakes nobody."""
    async with engine.connect() as connection:
        session = AsyncSession(connection)
        await outbox.dispatcher(session).dispatch([event])
        await session.flush()
        yield session
        await connection.commit()


async def is_sent(busy: BusyRelay, name: str) -> None:
    """Wait until a record is sent; a little time passes, so that the relay polls."""

    def so() -> bool:
        if name not in busy.publisher.started:
            busy.clock.advance(timedelta(seconds=0.02))
        return name in busy.publisher.started

    await eventually(so, f"{name} is sent")


@pytest.mark.requirement("E13")
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@SURE
async def test_a_record_that_is_committed_late_is_delivered_before_the_next_one_of_its_key(
    database: AsyncEngine, busy: BusyRelay, sure: bool
) -> None:
    async with running(busy.relay, busy.publisher):
        async with saving(database, happened("A1", A)):
            await save(database, happened("B1", B))
            await is_sent(busy, "B1")
            if sure:
                await busy.works_for_a_while(database)
            following = asyncio.create_task(save(database, happened("A2", A)))
            await wait_until_blocked(database)
            claims = busy.claims
        await following
        await eventually(partial(busy.has_claimed, claims), "the relay claims")
        assert await busy.delivers(database) == ["A1", "A2"]


@pytest.mark.requirement("E13")
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@SURE
async def test_so_it_is_if_a_trigger_holds_the_record_back_before_its_transaction_has_an_id(
    database: AsyncEngine, busy: BusyRelay, sure: bool
) -> None:
    async with gate(database) as open_gate, running(busy.relay, busy.publisher):
        await save(database, happened("first", FIRST))  # the sequence notes its next 32 numbers
        late = asyncio.create_task(save(database, happened("A1", A)))
        await wait_until_blocked(database)
        await save(database, happened("B1", B))
        await is_sent(busy, "B1")
        if sure:
            await busy.works_for_a_while(database)
        await open_gate()
        await late
        claims = busy.claims
        await save(database, happened("A2", A))
        await eventually(partial(busy.has_claimed, claims), "the relay claims")
        assert await busy.delivers(database) == ["A1", "A2"]


@asynccontextmanager
async def gate(engine: AsyncEngine) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Have a trigger hold A1 back; give what opens the gate."""
    async with engine.connect() as connection:
        connection = await connection.execution_options(isolation_level="AUTOCOMMIT")

        async def run(*statements: str) -> None:
            for statement in statements:
                await connection.execute(text(statement))

        await run(FUNCTION, TRIGGER, LOCK)
        try:
            yield partial(run, OPEN)
        finally:
            await run(OPEN, *REMOVE)


@pytest.mark.requirement("E13")
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_in_a_file_a_writer_that_waits_for_another_is_numbered_after_it(
    database: AsyncEngine, busy: BusyRelay
) -> None:
    async with running(busy.relay, busy.publisher):
        async with saving(database, happened("A1", A)):
            following = [
                asyncio.create_task(save(database, happened(name, key)))
                for name, key in (("B1", B), ("A2", A))
            ]
            await asyncio.sleep(0)
        await asyncio.gather(*following)
        await is_sent(busy, "B1")
        assert await busy.delivers(database) == ["A1", "A2"]


@pytest.mark.requirement("E13")
async def test_when_positions_have_gone_backwards_no_record_is_passed_by_a_later_one_of_its_key(
    database: AsyncEngine, busy: BusyRelay
) -> None:
    """As after a restore into a server that runs, a moment after a claim."""
    await go_on_from(database, 20)
    async with running(busy.relay, busy.publisher):
        await save(database, happened("B1", B))
        await is_sent(busy, "B1")
        await lose_everything(database, 19)
        for name in ("A1", "A2", "A3"):
            await save(database, happened(name, A))
        await is_sent(busy, "A3")
        assert await busy.delivers(database) == ["A1", "A2", "A3"]


@pytest.mark.requirement("E13")
async def test_a_replayed_record_that_waited_for_a_later_one_is_delivered_before_the_others(
    database: AsyncEngine, busy: BusyRelay
) -> None:
    """When A2 is delivered, A1 and A3 are released: a record before it, and one after it."""
    operations = Operations(outbox, database)
    async with running(busy.relay, busy.publisher):
        await save(database, happened("B1", B), happened("A1", A))
        await settled(busy, database, "A1", status=Status.PUBLISHED)
        busy.publisher.refused.add("A2")
        await save(database, happened("A2", A))
        await settled(busy, database, "A2", retry_count=1)
        await busy.works_for_a_while(database)

        await operations.replay([(await row(database, "A1")).id])
        await save(database, happened("A3", A))
        for name in ("A1", "A3"):
            await settled(busy, database, name, ready=False, due_at=None)
        busy.publisher.refused.clear()
        await operations.retry([(await row(database, "A2")).id])
        await save(database, happened("B2", B))
        assert await busy.delivers(database) == ["A1", "A2", "A2", "A1", "A3"]


async def row(engine: AsyncEngine, name: str) -> Any:
    return next(each for each in await rows(engine) if each.event_type == name)


async def settled(busy: BusyRelay, engine: AsyncEngine, name: str, **values: Any) -> None:
    """Wait until a record has these values."""

    async def so() -> bool:
        busy.clock.advance(timedelta(seconds=0.02))
        found = await row(engine, name)
        return all(getattr(found, each) == value for each, value in values.items())

    await eventually(so, f"{name} has {values}")
