"""Many writers on few keys, and busy workers: nothing is delivered before an earlier record."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from tests.chaos.fleet import Fleet
from tests.chaos.ledger import Ledger, out_of_order
from tests.chaos.outbox import keys_in, records_of, settled
from tests.support.shop import outbox
from tests.support.waiting import FULL, eventually

pytestmark = pytest.mark.extended

WRITERS = 16
WORKERS = 3
PARTITIONS = (7, 8)
KEYS = [key for partition in PARTITIONS for key in islice(keys_in(partition), 8)]
SECONDS = 60 if FULL else 4
LONGEST = 0.01
"""Seconds for which a transaction stays open after its INSERT at most."""


@asynccontextmanager
async def engine_for(writers: int, engine: AsyncEngine) -> AsyncIterator[AsyncEngine]:
    """Give an engine with a connection for each writer."""
    own = create_async_engine(engine.url, pool_size=writers)
    yield own
    await own.dispose()


@asynccontextmanager
async def notified(engine: AsyncEngine) -> AsyncIterator[None]:
    """Have workers look for records after each commit."""
    notifier = outbox.notify_workers(engine)
    yield
    await asyncio.to_thread(notifier.close)


async def write(engine: AsyncEngine, number: int, until: float) -> int:
    """Commit records of one key after another; give how many."""
    chance, written = random.Random(number), 0
    while time.monotonic() < until:
        async with AsyncSession(engine) as session:
            session.add_all(records_of(chance.choice(KEYS), 1))
            await session.flush()
            await asyncio.sleep(chance.uniform(0, LONGEST))  # what else the transaction does
            await session.commit()
        written += 1
    return written


@pytest.mark.requirement("E13")
async def test_sixteen_writers_of_few_keys_and_three_busy_workers_keep_the_order(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet
) -> None:
    for _ in range(WORKERS):
        fleet.start(poll=0.1, latency=0.001)
    await eventually(lambda: all(worker.ready for worker in fleet.everyone), "they are ready")
    until = time.monotonic() + SECONDS
    async with engine_for(WRITERS, engine) as own, notified(own):
        written = await asyncio.gather(*(write(own, number, until) for number in range(WRITERS)))
    await eventually(lambda: settled(engine), "everything is settled")

    assert len(ledger.records()) == sum(written)
    assert out_of_order(ledger.delivered()) == []
