"""An asynchronous standby becomes the primary: what came last is lost, and its positions reused."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import Status
from tests.chaos.fleet import Fleet, fleet_of
from tests.chaos.ledger import Ledger, out_of_order
from tests.chaos.open_transactions import through
from tests.chaos.outbox import TABLES, records_of, rows, save, settled
from tests.chaos.server import Server, private_server, standby_of
from tests.chaos.worker import WorkerOptions
from tests.support.proxy import How, Proxy, proxy_to
from tests.support.shop import outbox
from tests.support.waiting import FULL, eventually

pytestmark = pytest.mark.extended

ROUNDS = 6 if FULL else 1
WORKERS = 4 if FULL else 2
WRITERS = 4
KEYS = 100
LOST = 150
"""How many records are saved at least after the last one that the standby gets."""
DOWN = 10.0 if FULL else 0.5
"""Seconds from the death of the primary to the promotion of the standby."""
AT_A_TIME = 5
AWAY = (DBAPIError, OSError)


@dataclass
class Cluster:
    """A primary, a standby, and three ways: of workers, of writers, and of the standby."""

    primary: Server
    workers: Proxy
    writers: Proxy
    replication: Proxy
    servers: ExitStack

    async def add_standby(self) -> Server:
        self.replication.lead_to(self.primary.port)
        standby = standby_of(self.primary, self.replication.port)
        return await asyncio.to_thread(self.servers.enter_context, standby)

    async def promote(self, standby: Server, engine: AsyncEngine, last: int) -> None:
        """Have the standby take over; writers find it first, and reuse the positions."""
        await asyncio.to_thread(standby.promote)
        self.primary = standby
        self.writers.lead_to(standby.port)
        await eventually(lambda: has_reached(engine, last), "the positions are reused")
        self.workers.lead_to(standby.port)

    async def die(self) -> None:
        for proxy in (self.workers, self.writers):
            proxy.go_away(How.RST)
        await asyncio.to_thread(self.primary.crash)


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as servers:
        yield servers


@pytest.fixture
async def cluster(servers: ExitStack) -> AsyncIterator[Cluster]:
    primary = await asyncio.to_thread(servers.enter_context, private_server())
    async with AsyncExitStack() as stack:
        one, two, three = [await stack.enter_async_context(proxy_to(primary.port)) for _ in "123"]
        yield Cluster(primary, workers=one, writers=two, replication=three, servers=servers)


@pytest.fixture
async def engine(cluster: Cluster) -> AsyncIterator[AsyncEngine]:
    """The application's engine, by the writers' way."""
    engine = create_async_engine(through(cluster.writers, cluster.primary.url), pool_size=WRITERS)
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    yield engine
    await engine.dispose()


@pytest.fixture
def fleet(cluster: Cluster, ledger: Ledger, tmp_path: Path) -> Iterator[Fleet]:
    """Workers that take a while to deliver, so that much is in flight, and refuse some."""
    url = through(cluster.workers, cluster.primary.url)
    options = WorkerOptions(
        url=url, ledger=str(ledger.path), lease=3, poll=0.2, latency=0.1, refused_percent=10
    )
    with fleet_of(options, tmp_path) as fleet:
        yield fleet


async def last_position(engine: AsyncEngine) -> int:
    async with engine.connect() as connection:
        return await connection.scalar(select(func.max(TABLES.records.c.position))) or 0


async def has_reached(engine: AsyncEngine, position: int) -> bool:
    with suppress(*AWAY):
        return await last_position(engine) >= position
    return False


async def write(engine: AsyncEngine, number: int) -> None:
    """Commit records of one key after another, whenever there is a database, until cancelled."""
    chance = random.Random(number)
    while True:
        try:
            await save(engine, records_of(f"k{chance.randrange(KEYS)}", AT_A_TIME))
        except AWAY:
            await asyncio.sleep(0.1)
        else:
            await asyncio.sleep(0.05)


@asynccontextmanager
async def writers(engine: AsyncEngine) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(write(engine, number)) for number in range(WRITERS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def fail_over(cluster: Cluster, engine: AsyncEngine, ledger: Ledger) -> None:
    """Have the standby lag by hundreds of records, and the primary die under load."""
    standby = await cluster.add_standby()
    delivered = len(ledger.delivered())
    await eventually(lambda: len(ledger.delivered()) > delivered, "records flow")
    cluster.replication.go_away(How.STALL)
    begun = await last_position(engine)
    await eventually(lambda: has_reached(engine, begun + LOST), "the standby lags")
    last = await last_position(engine)
    await cluster.die()
    await asyncio.sleep(DOWN)  # until somebody notices
    await cluster.promote(standby, engine, last)


async def never_delivered(engine: AsyncEngine, ledger: Ledger) -> list[int]:
    """Give the positions of records that are marked as published, and were not delivered."""
    marked = await rows(engine, TABLES.records.c.status == Status.PUBLISHED)
    return [row.position for row in marked if str(row.id) not in ledger.records()]


@pytest.mark.requirement("E18")
async def test_a_failover_that_loses_commits_marks_no_record_that_was_not_delivered(
    cluster: Cluster, engine: AsyncEngine, fleet: Fleet, ledger: Ledger
) -> None:
    for _ in range(WORKERS):
        fleet.start()
    async with writers(engine):
        for _ in range(ROUNDS):
            await fail_over(cluster, engine, ledger)
    await eventually(lambda: settled(engine), "everything that is left is settled")

    assert await never_delivered(engine, ledger) == []
    survived = {str(row.id) for row in await rows(engine)}
    assert out_of_order(each for each in ledger.delivered() if each.record in survived) == []
    assert [worker.name for worker in fleet.dead] == []
