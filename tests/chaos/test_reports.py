"""What operators see while a relay waits for the leases of a dead worker."""

from datetime import timedelta

import pytest
from sqlalchemy import func, update
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.inspection import Inspector
from postroom.relay.health import HealthStatus
from postroom.relay.relay import OutboxRelay
from tests.chaos.fleet import Fleet
from tests.chaos.ledger import Ledger
from tests.chaos.outbox import TABLES, records_of_keys, running, save
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import outbox
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.extended

MINUTE = timedelta(minutes=1)


@pytest.mark.requirement("E1")
async def test_a_worker_of_a_lost_host_is_a_problem_of_the_outbox_and_not_of_its_successor(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet
) -> None:
    records = records_of_keys(100, 10)
    await save(engine, records)
    lost = fleet.start(lease=10 * PATIENCE, latency=1.0)
    await eventually(lambda: len(ledger.delivered()) > 0, "deliveries flow")
    lost.kill()
    await move_to_another_host(engine)

    async def is_named() -> bool:
        overview = await Inspector(outbox, engine).overview()
        silent = (each for each in overview.problems if "has missed its heartbeats" in each)
        return any(f":{lost.pid}:" in each for each in silent)

    publisher = LedgerPublisher(ledger, "successor")
    relay = OutboxRelay(outbox, engine, publisher, poll_interval=timedelta(seconds=0.2))
    async with running(relay):
        await eventually(is_named, "the overview names the lost worker")
        assert relay.health.status is HealthStatus.OK
        await let_leases_run_out(engine)
        await eventually(lambda: len(ledger.records()) == len(records), "it takes over")
        await relay.stop()


async def move_to_another_host(engine: AsyncEngine) -> None:
    """Name the workers as processes of another host, whose death nobody here can see."""
    async with engine.begin() as connection:
        for table in (TABLES.leases, TABLES.workers):
            elsewhere = func.regexp_replace(table.c.worker, ":[0-9a-f]{8}-", ":00000000-")
            await connection.execute(update(table).values(worker=elsewhere))


async def let_leases_run_out(engine: AsyncEngine) -> None:
    """Have the leases begin and end ten minutes ago."""
    past = func.now() - timedelta(minutes=10)
    async with engine.begin() as connection:
        await connection.execute(
            update(TABLES.leases).values(served_at=past - MINUTE, leased_until=past)
        )
