"""What a relay logs and reports while all is well, and while it waits for a dead worker."""

import asyncio
import logging
import re
from datetime import timedelta

import pytest
from sqlalchemy import func, update
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import Status
from postroom.publishers.base import DELIVERED, Outcome, Refused
from postroom.record import ClaimedRecord
from postroom.relay.health import HealthStatus
from postroom.relay.relay import OutboxRelay
from postroom.relay.retry import RetrySchedule
from postroom.testing import FakeClock
from tests.chaos.fleet import Fleet
from tests.chaos.ledger import Ledger
from tests.chaos.outbox import TABLES, has_status, leases, records_of_keys, rows, running, save
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import outbox
from tests.support.waiting import PATIENCE, eventually

WAITS = re.compile(r"(\d+) partitions? .*leased to worker .* until")
SUMMARY = re.compile(r"(\d+) delivered, (\d+) refused, 0 postponed in (\d+) s")
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


async def has_logged(log: pytest.LogCaptureFixture, summaries: int) -> None:
    await eventually(lambda: len(matches(log, SUMMARY)) >= summaries, "a line a minute")


class Gate:
    """Refuses the first record, delivers those of some keys, and keeps the others waiting."""

    def __init__(self, *open_for: str) -> None:
        self.opened = asyncio.Event()
        self._open_for = open_for
        self._refused = False

    async def take(self, record: ClaimedRecord) -> Outcome:
        if not self._refused:
            self._refused = True
            return Refused("once")
        if record.aggregate_id not in self._open_for:
            await self.opened.wait()
        return DELIVERED


def relay_with(gate: Gate, engine: AsyncEngine, ledger: Ledger, clock: FakeClock) -> OutboxRelay:
    return OutboxRelay(
        outbox,
        engine,
        LedgerPublisher(ledger, treat=gate.take, max_batch=1),
        poll_interval=timedelta(seconds=0.2),
        retry=RetrySchedule.seconds(0, forever=True),
        clock=clock,
    )


@pytest.mark.requirement("E1")
async def test_a_relay_logs_a_summary_every_minute_while_there_is_work_and_when_it_stops(
    engine: AsyncEngine, ledger: Ledger, log: pytest.LogCaptureFixture
) -> None:
    clock, gate = FakeClock(), Gate("k0", "k1")
    relay = relay_with(gate, engine, ledger, clock)
    await save(engine, records_of_keys(4, 5))
    async with running(relay):
        await eventually(lambda: len(ledger.delivered()) == 10, "some are delivered")
        for minutes in (1, 2, 3):
            clock.advance(MINUTE)
            await has_logged(log, minutes)
        gate.opened.set()
        await eventually(lambda: len(ledger.delivered()) == 20, "all are delivered")
        log.clear()
        await relay.stop()

    assert len(matches(log, re.compile(r"\d+ delivered, \d+ refused"))) == 1
    assert has_status(await rows(engine), Status.PUBLISHED)
