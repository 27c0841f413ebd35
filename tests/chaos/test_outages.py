"""The way out is away, for longer than the whole retry schedule."""

from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import Status
from postroom.errors import OutageError
from postroom.publishers.base import DELIVERED, Outcome
from postroom.record import ClaimedRecord
from postroom.relay.health import HealthStatus
from postroom.relay.relay import OutboxRelay
from postroom.relay.retry import RetrySchedule
from tests.chaos.clock import SteppedClock
from tests.chaos.ledger import Ledger, out_of_order
from tests.chaos.outbox import blocked_keys, has_status, records_of_keys, rows, running, save
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import outbox
from tests.support.waiting import FULL, eventually

SCHEDULE = RetrySchedule.seconds(1, 5, 30)
OUTAGE = timedelta(minutes=40 if FULL else 5)
"""Much longer than the schedule's 36 seconds."""
LONGEST_PAUSE = timedelta(seconds=30)
SLEEPERS = 3
"""Who waits for time to pass: the lane and the cleaner."""


class Broker:
    """Is away while it says so: nobody can connect, or nothing gets through."""

    def __init__(self, *, connects: bool) -> None:
        self.away = True
        self.tries = 0
        self._connects = connects

    def connect(self) -> None:
        if self.away and not self._connects:
            self._refuse()

    async def take(self, record: ClaimedRecord) -> Outcome:
        if self.away:
            self._refuse()
        return DELIVERED

    def _refuse(self) -> None:
        self.tries += 1
        raise OutageError("the broker is on holiday")


def relay_to(
    broker: Broker, engine: AsyncEngine, ledger: Ledger, clock: SteppedClock
) -> OutboxRelay:
    publisher = LedgerPublisher(ledger, treat=broker.take, opening=broker.connect)
    return OutboxRelay(outbox, engine, publisher, retry=SCHEDULE, clock=clock)


@pytest.mark.requirement("E1", "C17")
@pytest.mark.parametrize("connects", [True, False], ids=["nothing gets through", "no connection"])
async def test_an_outage_longer_than_the_schedule_costs_no_attempt(
    engine: AsyncEngine, ledger: Ledger, connects: bool
) -> None:
    records = records_of_keys(10, 10, max_retries=3)
    await save(engine, records)
    clock, broker = SteppedClock(), Broker(connects=connects)
    relay = relay_to(broker, engine, ledger, clock)

    async with running(relay):
        await stay_away(broker, relay, clock)
        found = await rows(engine)
        assert {(row.status, row.retry_count, row.error_message) for row in found} == {
            (Status.PENDING, 0, None)
        }
        broker.away = False
        clock.advance(LONGEST_PAUSE.total_seconds())
        await eventually(lambda: len(ledger.delivered()) == len(records), "everything is delivered")
        await eventually(lambda: relay.health.status is HealthStatus.OK, "the relay is well again")
        await relay.stop()

    found = await rows(engine)
    assert has_status(found, Status.PUBLISHED)
    assert {row.retry_count for row in found} == {0}
    assert out_of_order(ledger.delivered()) == []
    assert await blocked_keys(engine) == []


async def stay_away(broker: Broker, relay: OutboxRelay, clock: SteppedClock) -> None:
    """Let time pass; the relay tries again and again by itself."""
    await eventually(lambda: relay.health.status is HealthStatus.DEGRADED, "the relay says so")
    tries = broker.tries
    while clock.shift() < OUTAGE:
        await eventually(lambda: clock.sleepers == SLEEPERS, "the relay sleeps")
        clock.skip()
        assert relay.health.status is HealthStatus.DEGRADED
        assert "on holiday" in (relay.health.reason or "")
    assert broker.tries - tries >= OUTAGE / (2 * LONGEST_PAUSE)


@pytest.mark.requirement("E1")
async def test_records_that_come_during_an_outage_leave_after_it_in_order(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    clock, broker = SteppedClock(), Broker(connects=True)
    relay = relay_to(broker, engine, ledger, clock)
    early, late = records_of_keys(5, 4), records_of_keys(5, 4)
    await save(engine, early)

    async with running(relay):
        await eventually(lambda: relay.health.status is HealthStatus.DEGRADED, "the relay says so")
        await save(engine, late)
        broker.away = False
        clock.advance(LONGEST_PAUSE.total_seconds())
        await eventually(lambda: len(ledger.delivered()) == 40, "everything is delivered")
        await relay.stop()

    assert out_of_order(ledger.delivered()) == []
