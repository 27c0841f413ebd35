"""What a relay logs and reports while all is well, and while it waits for a dead worker."""

import logging
import re
from datetime import timedelta

import pytest
from sqlalchemy import func, update
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.relay.health import HealthStatus
from postroom.relay.relay import OutboxRelay
from tests.chaos.fleet import Fleet
from tests.chaos.ledger import Ledger
from tests.chaos.outbox import TABLES, leases, records_of_keys, running, save
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import outbox
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.extended

WAITS = re.compile(r"(\d+) partitions? .*leased to worker .* until")


MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "postroom")
    return caplog


def matches(log: pytest.LogCaptureFixture, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    """Find the lines of the log that match, from INFO to WARNING."""
    lines = [each.getMessage() for each in log.records if each.levelno <= logging.WARNING]
    return [found for line in lines if (found := pattern.search(line))]


@pytest.mark.requirement("E1")
async def test_the_successor_of_a_killed_worker_says_for_whose_leases_it_waits(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet, log: pytest.LogCaptureFixture
) -> None:
    records = records_of_keys(100, 10)
    await save(engine, records)
    killed = fleet.start(lease=10 * PATIENCE, latency=1.0)
    await eventually(lambda: len(ledger.delivered()) > 0, "deliveries flow")
    killed.kill()
    held = len(await leases(engine))

    publisher = LedgerPublisher(ledger, "successor")
    relay = OutboxRelay(outbox, engine, publisher, poll_interval=timedelta(seconds=0.2))
    async with running(relay):
        await eventually(lambda: matches(log, WAITS), "it logs what it waits for")
        await eventually(lambda: relay.health.status is HealthStatus.DEGRADED, "so does its health")
        reason = WAITS.search(relay.health.reason or "")
        assert reason is not None, relay.health.reason
        assert int(reason[1]) <= held
        assert f":{killed.pid}:" in (relay.health.reason or "")

        await let_leases_run_out(engine)
        await eventually(lambda: len(ledger.records()) == len(records), "it takes over")
        await eventually(lambda: relay.health.status is HealthStatus.OK, "all is well again")
        await relay.stop()
    assert len(matches(log, WAITS)) < 10, "one line is enough"


async def let_leases_run_out(engine: AsyncEngine) -> None:
    """Have the leases begin and end ten minutes ago."""
    past = func.now() - timedelta(minutes=10)
    async with engine.begin() as connection:
        await connection.execute(
            update(TABLES.leases).values(served_at=past - MINUTE, leased_until=past)
        )
