"""What a relay asks of the database while there is nothing to do."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.publishers.base import Outcome, Refused
from postroom.record import ClaimedRecord
from postroom.relay.leases import LINGER
from postroom.relay.relay import OutboxRelay
from postroom.relay.retry import RetrySchedule
from tests.chaos.clock import SteppedClock
from tests.chaos.ledger import Ledger
from tests.chaos.outbox import records_of_keys, running, save
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import outbox
from tests.support.statements import noted_statements
from tests.support.waiting import eventually

POLL = timedelta(seconds=30)
INTERVALS = 10
"""Less than the cleaner's interval, all together."""
SLEEPERS = 3
"""The loop, the heartbeat and the cleaner."""


class Statements:
    """Counts the statements of a relay.

    Heartbeats are left out: they touch nothing but the 64 rows of the leases, and with a report
    the row of the worker.
    """

    def __init__(self, sent: list[str]) -> None:
        self._sent = sent

    @property
    def count(self) -> int:
        heartbeat = ("UPDATE outbox_leases", "INSERT INTO outbox_workers")
        return sum(not each.startswith(heartbeat) for each in self._sent)


@pytest.fixture
def statements() -> Iterator[Statements]:
    with noted_statements() as sent:
        yield Statements(sent)


async def pass_time(clock: SteppedClock, sleepers: int, span: timedelta = INTERVALS * POLL) -> None:
    """Let time pass, step by step, each when everybody sleeps."""
    begun = clock.shift()
    while clock.shift() - begun < span:
        await eventually(lambda: clock.sleepers == sleepers, "everybody sleeps")
        clock.skip()
    await eventually(lambda: clock.sleepers == sleepers, "everybody sleeps")


async def test_an_idle_relay_looks_for_work_once_per_interval(
    engine: AsyncEngine, ledger: Ledger, statements: Statements
) -> None:
    clock, sleepers = SteppedClock(), SLEEPERS
    relay = OutboxRelay(outbox, engine, LedgerPublisher(ledger), poll_interval=POLL, clock=clock)
    async with running(relay):
        await eventually(lambda: clock.sleepers == sleepers, "everybody sleeps")
        before = statements.count
        await pass_time(clock, sleepers)
        assert 0 < statements.count - before <= INTERVALS
        await relay.stop()


async def test_a_relay_whose_records_all_wait_for_their_retry_asks_no_more_than_that(
    engine: AsyncEngine, ledger: Ledger, statements: Statements
) -> None:
    async def refuse(record: ClaimedRecord) -> Outcome:
        return Refused("not today")

    clock = SteppedClock()
    relay = OutboxRelay(
        outbox,
        engine,
        LedgerPublisher(ledger, treat=refuse),
        poll_interval=POLL,
        retry=RetrySchedule.seconds(3600, forever=True),
        clock=clock,
    )
    await save(engine, records_of_keys(100, 2))
    async with running(relay):
        await eventually(lambda: len(ledger.entries()) == 200, "the first of each key is refused")
        await pass_time(
            clock, SLEEPERS, 2 * timedelta(seconds=LINGER)
        )  # it has given up its leases
        before = statements.count
        await pass_time(clock, SLEEPERS)
        assert 0 < statements.count - before <= INTERVALS + 1
        await relay.stop()
    assert len(ledger.entries()) == 200
