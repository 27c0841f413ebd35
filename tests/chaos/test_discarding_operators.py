"""People repair the outbox while relays deliver from it."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from uuid import UUID
from zlib import crc32

import pytest
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRecord, Status
from postroom.operations import Operations
from postroom.publishers.base import DELIVERED, Outcome, Refused
from postroom.record import ClaimedRecord
from postroom.relay.health import HealthStatus
from postroom.relay.relay import OutboxRelay
from postroom.relay.retry import RetrySchedule
from tests.chaos.ledger import Ledger, out_of_order, repeats
from tests.chaos.outbox import (
    TABLES,
    blocked_keys,
    has_status,
    records_of_keys,
    rows,
    running,
    save,
)
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import outbox
from tests.support.waiting import FULL, eventually

RELAYS = 3
OPERATORS = 4
BATCH = 20
KEYS = 20
RECORDS = 5_000 if FULL else 800
REFUSED_PERCENT = 30
MOST_REFUSALS = 5
"""Of one record: none fails."""
FIRST = 200


class Refusals:
    """Refuses at random, so that keys are blocked and freed all the time.

    When FIRST records were sent, it waits for the operators: else there might be no work for them.
    """

    def __init__(self, operators: "Operators") -> None:
        self._operators = operators
        self._sent = 0

    async def treat(self, record: ClaimedRecord) -> Outcome:
        self._sent += 1
        if self._sent > FIRST:
            await self._operators.busy.wait()
        throw = crc32(f"{record.id} {record.retry_count}".encode()) % 100
        unlucky = throw < REFUSED_PERCENT and record.retry_count < MOST_REFUSALS
        return Refused("bad luck") if unlucky else DELIVERED


def relay_on(engine: AsyncEngine, ledger: Ledger, name: str, refusals: Refusals) -> OutboxRelay:
    return OutboxRelay(
        outbox,
        engine,
        LedgerPublisher(ledger, name, refusals.treat),
        poll_interval=timedelta(seconds=0.2),
        batch_size=BATCH,
        retry=RetrySchedule.seconds(0.01, forever=True),
    )


class Operators:
    """Discard records while they are pending, a few at random at a time, until one fails."""

    def __init__(self, engine: AsyncEngine, unwanted: Sequence[OutboxRecord]) -> None:
        self.discarded = 0
        self.busy = asyncio.Event()
        """Is set when they have discarded some, or are done."""
        self.errors: list[str] = []
        self._engine = engine
        self._operations = Operations(outbox, engine)
        self._unwanted = {record.id for record in unwanted}
        self._random = random.Random(1)

    async def work(self) -> None:
        await asyncio.gather(*[self._work() for _ in range(OPERATORS)])

    async def _work(self) -> None:
        while not self.errors and (pending := await self._pending()):
            chosen = self._random.sample(pending, min(BATCH, len(pending)))
            try:
                discarded = await self._operations.discard(chosen)
                self.discarded += discarded  # of all, who have worked meanwhile
            except Exception as error:
                self.errors.append(repr(error))
            if self.discarded > BATCH * OPERATORS:
                self.busy.set()
        self.busy.set()

    async def _pending(self) -> list[UUID]:
        """Give the ids that are left to discard, sorted so that the same ones are drawn."""
        table = TABLES.records
        query = select(table.c.id).where(table.c.status == Status.PENDING)
        async with self._engine.connect() as connection:
            return sorted(self._unwanted.intersection(await connection.scalars(query)))


class Doctor:
    """Looks at the health of relays, and writes down why one was not well."""

    def __init__(self, relays: Sequence[OutboxRelay]) -> None:
        self.degraded: list[str] = []
        self._relays = relays

    def finds_all_well(self) -> bool:
        found = (relay.health for relay in self._relays)
        sick = [str(each.reason) for each in found if each.status is not HealthStatus.OK]
        self.degraded += sick
        return not sick


async def deadlocks(engine: AsyncEngine) -> int:
    """Count those of the database, which is this test's own, once every backend has ended."""
    query = text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    await engine.dispose()
    async with engine.connect() as connection:
        return int(await connection.scalar(query) or 0)


@pytest.mark.extended
@pytest.mark.requirement("E1", "C16")
async def test_operators_discard_pending_records_while_relays_deliver_and_nobody_is_disturbed(
    engine: AsyncEngine, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    records = records_of_keys(KEYS, RECORDS // KEYS)
    await save(engine, records)
    operators = Operators(engine, records[::2])
    refusals = Refusals(operators)
    relays = [relay_on(engine, ledger, f"r{number}", refusals) for number in range(RELAYS)]
    doctor = Doctor(relays)

    async with AsyncExitStack() as stack:
        for relay in relays:
            await stack.enter_async_context(running(relay))
        await eventually(lambda: len(ledger.delivered()) > 50, "deliveries flow")
        work = asyncio.create_task(operators.work())
        stack.callback(work.cancel)
        await eventually(lambda: work.done() or not doctor.finds_all_well(), "the work is done")
        assert doctor.degraded == []
        await work
        assert operators.errors == []
        assert operators.discarded > BATCH * OPERATORS
        wanted = {str(record.id) for record in records[1::2]}
        await eventually(lambda: wanted <= ledger.records(), "the rest is delivered")
        assert doctor.finds_all_well()
        await asyncio.gather(*[relay.stop() for relay in relays])

    assert not [line for line in caplog.messages if "unavailable" in line]
    assert has_status(await rows(engine), Status.PUBLISHED)
    assert await blocked_keys(engine) == []
    assert repeats(ledger.delivered()) == []
    assert out_of_order(entry for entry in ledger.delivered() if entry.record in wanted) == []
    assert await deadlocks(engine) == 0
