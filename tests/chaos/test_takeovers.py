"""Leases that run out: by an outage, by a freeze, or because processes were killed."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import Status
from postroom.publishers.base import DELIVERED, Outcome
from postroom.record import PARTITIONS, ClaimedRecord
from postroom.relay.relay import OutboxRelay
from tests.chaos.fleet import Fleet, Worker
from tests.chaos.ledger import Entry, Ledger, What
from tests.chaos.open_transactions import port_of, through
from tests.chaos.outbox import TABLES, leases, records_of_keys, running, save
from tests.chaos.publisher import LedgerPublisher
from tests.support.proxy import How, Proxy, proxy_to
from tests.support.shop import outbox
from tests.support.waiting import FULL, eventually

pytestmark = pytest.mark.extended

LEASE = 1.0
KEYS = 500
TAKEOVERS = 2
"""From so many in a row on, a partition is suspected to hold a record that kills processes."""


async def crashes_and_backlog(engine: AsyncEngine) -> tuple[int, int]:
    """Give the highest crash count of a partition, and how many records are pending."""
    crashes = select(func.max(TABLES.leases.c.crash_count)).scalar_subquery()
    pending = TABLES.records.c.status == Status.PENDING
    backlog = select(func.count()).select_from(TABLES.records).where(pending).scalar_subquery()
    async with engine.connect() as connection:
        highest, count = (await connection.execute(select(crashes, backlog))).one()
        return highest, count


async def crashes_are_forgotten(engine: AsyncEngine) -> None:
    """Wait until no partition counts a crash, although there is work for all of them."""

    async def forgotten() -> bool:
        crashes, backlog = await crashes_and_backlog(engine)
        assert backlog > 0, "crashes were counted until the work was done"
        return crashes == 0

    await eventually(forgotten, "no crash is counted")


class SlowPublisher:
    """Takes its time for each delivery, and counts how many are under way at once."""

    def __init__(self) -> None:
        self.latency = 1.0
        self.most = 0
        self._now = 0

    async def take(self, record: ClaimedRecord) -> Outcome:
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(self.latency)  # the time that a broker takes
        self._now -= 1
        return DELIVERED


@asynccontextmanager
async def two_relays(url: str, ledger: Ledger) -> AsyncIterator[list[SlowPublisher]]:
    """Run two relays on a database, ten deliveries at once each."""
    engine, slow = create_async_engine(url), [SlowPublisher(), SlowPublisher()]
    relays = [
        OutboxRelay(
            outbox,
            engine,
            LedgerPublisher(ledger, f"r{number}", each.take, max_in_flight=10),
            poll_interval=timedelta(seconds=0.2),
            lease=timedelta(seconds=LEASE),
            batch_size=10,
        )
        for number, each in enumerate(slow)
    ]
    async with AsyncExitStack() as stack:
        stack.push_async_callback(engine.dispose)
        for relay in relays:
            await stack.enter_async_context(running(relay))
        yield slow


async def leases_run_out(engine: AsyncEngine) -> None:
    async def over() -> bool:
        return not await leases(engine, TABLES.leases.c.leased_until >= func.now())

    await eventually(over, "all leases have run out")


async def outage_longer_than_the_lease(engine: AsyncEngine, proxy: Proxy, ledger: Ledger) -> None:
    proxy.go_away(How.RST)
    await leases_run_out(engine)
    before = len(ledger.delivered())
    proxy.come_back()
    await eventually(lambda: len(ledger.delivered()) > before + 10, "deliveries resume")


@pytest.mark.requirement("E1")
async def test_outages_of_the_database_longer_than_the_lease_are_no_crashes(
    engine: AsyncEngine, ledger: Ledger, database_url: str
) -> None:
    await save(engine, records_of_keys(KEYS, 4))
    async with (
        proxy_to(port_of(database_url)) as proxy,
        two_relays(through(proxy, database_url), ledger) as slow,
    ):
        await eventually(lambda: all(each.most > 1 for each in slow), "both deliver")
        for _ in range(TAKEOVERS):
            await outage_longer_than_the_lease(engine, proxy, ledger)
        for each in slow:
            each.most = 0
        await crashes_are_forgotten(engine)
        await eventually(lambda: all(each.most > 1 for each in slow), "both deliver several")


@pytest.mark.requirement("E1")
async def test_a_worker_that_was_frozen_and_is_back_is_no_crash(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet
) -> None:
    await save(engine, records_of_keys(KEYS, 4))
    fleet.configure(lease=LEASE, poll=0.2, latency=1.0, batch_size=10, max_in_flight=10)
    sleeper = fleet.start()
    await eventually(lambda: len(ledger.delivered()) >= 10, "deliveries flow")
    other = fleet.start()
    for _ in range(TAKEOVERS):
        await eventually(lambda: holds_some(engine, sleeper), "the sleeper has work")
        sleeper.freeze()
        await eventually(lambda: holds_all(engine, other), "the other one has taken over")
        sleeper.thaw()
        await eventually(lambda: holds_some(engine, sleeper), "the sleeper is back")

    await crashes_are_forgotten(engine)


async def holds_some(engine: AsyncEngine, worker: Worker) -> bool:
    return bool(await leases(engine, TABLES.leases.c.worker.contains(f":{worker.pid}:")))


async def holds_all(engine: AsyncEngine, worker: Worker) -> bool:
    mine = TABLES.leases.c.worker.contains(f":{worker.pid}:")
    return len(await leases(engine, mine)) == PARTITIONS


BACKLOG = 25_000 if FULL else 3_000
LATENCY = 0.5


def by(worker: Worker, ledger: Ledger) -> list[Entry]:
    """Give the lines of one worker."""
    return [entry for entry in ledger.entries() if entry.worker == worker.name]


def most_in_flight(lines: list[Entry]) -> int:
    """Count the deliveries of one worker that were under way at once."""
    steps = (1 if entry.what is What.STARTED else -1 for entry in lines)
    return max(itertools.accumulate(steps))


async def flows(worker: Worker, ledger: Ledger) -> None:
    await eventually(lambda: len(by(worker, ledger)) > 200, "deliveries flow")


async def kill_two_workers(engine: AsyncEngine, ledger: Ledger, fleet: Fleet) -> None:
    """Kill a worker in full flow, and then the one that took over from it."""
    for _ in range(TAKEOVERS):
        worker = fleet.start()
        await flows(worker, ledger)
        await eventually(partial(holds_all, engine, worker), "the worker has all leases")
        worker.kill()


@pytest.mark.requirement("E1")
async def test_after_two_crashes_in_a_row_a_worker_is_careful_for_a_moment_and_says_so(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet
) -> None:
    fleet.configure(lease=LEASE, poll=0.2, latency=LATENCY, batch_size=20)
    await save(engine, records_of_keys(KEYS, BACKLOG // KEYS))
    await kill_two_workers(engine, ledger, fleet)

    heir = fleet.start()
    await flows(heir, ledger)
    assert most_in_flight(by(heir, ledger)[:200]) > 1
    await crashes_are_forgotten(engine)
    await eventually(lambda: len(warnings_of(heir)) >= 2, "it says when that begins and ends")


def warnings_of(worker: Worker) -> list[str]:
    """Give what a worker has logged about deliveries that go one at a time."""
    return re.findall(r"^WARNING .* one (?:at a time|by one).*$", worker.log.read_text(), re.M)
