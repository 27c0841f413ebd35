"""A worker process that gets SIGTERM in the middle of deliveries."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import Status
from postroom.relay.relay import OutboxRelay
from tests.chaos.fleet import Fleet
from tests.chaos.ledger import Ledger, repeats
from tests.chaos.outbox import has_status, leases, records_of_keys, rows, save
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import outbox
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.extended

LEASE = 10 * timedelta(seconds=PATIENCE)
"""Longer than any wait: what another relay gets, it gets because it was given back."""


@pytest.mark.requirement("A15")
async def test_sigterm_settles_what_is_in_flight_and_exits_with_0(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet
) -> None:
    await save(engine, records_of_keys(20, 20))
    worker = fleet.start(latency=0.05, lease=LEASE.total_seconds())
    await eventually(lambda: len(ledger.delivered()) >= 20, "deliveries are under way")

    worker.ask_to_stop()
    await eventually(lambda: worker.dead, "the worker has ended")

    assert worker.process.returncode == 0
    settled = await rows(engine, outbox.tables.records.c.status == Status.PUBLISHED)
    assert {str(row.id) for row in settled} == ledger.records()
    assert await leases(engine) == []
    async with asyncio.timeout(PATIENCE):  # at once
        await OutboxRelay(outbox, engine, LedgerPublisher(ledger, "next")).run_once()
    assert repeats(ledger.delivered()) == []
    assert has_status(await rows(engine), Status.PUBLISHED)
