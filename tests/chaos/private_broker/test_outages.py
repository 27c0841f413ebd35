"""RabbitMQ is stopped, killed or out of memory, for longer than every retry put together."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRecord, Status
from postroom.publishers.base import Outage
from postroom.publishers.rabbitmq import RabbitMQPublisher
from postroom.relay.health import HealthStatus
from postroom.relay.relay import OutboxRelay
from postroom.relay.retry import RetrySchedule
from postroom.testing import FakeClock
from tests.chaos.broker import MAX_MESSAGE_SIZE, Broker
from tests.chaos.ledger import Entry, out_of_order, repeats
from tests.chaos.mailbox import Mailbox, records_in
from tests.chaos.noting_publisher import NotingPublisher
from tests.chaos.outbox import blocked_keys, has_status, records_of_keys, rows, running, save
from tests.support.shop import outbox
from tests.support.waiting import FULL, eventually

POLL = timedelta(seconds=30)
TIERS = RetrySchedule.tiers()
OUTAGE = POLL + sum((TIERS.delay(nth, POLL) for nth in range(1, 10)), timedelta())
LONGEST_PAUSE = timedelta(seconds=30)
MANY = 200 if FULL else 5


class Delivery:
    """A relay that delivers to the mailbox, on a clock that the test advances."""

    def __init__(self, engine: AsyncEngine, mailbox: Mailbox) -> None:
        self.engine = engine
        self.mailbox = mailbox
        self.clock = FakeClock()
        self.noting = NotingPublisher(mailbox.publisher())
        self.relay = OutboxRelay(
            outbox,
            engine,
            self.noting,
            retry=TIERS,
            poll_interval=POLL,
            batch_size=200,
            clock=self.clock,
        )

    def is_degraded(self, reason: str) -> bool:
        health = self.relay.health
        return health.status is HealthStatus.DEGRADED and reason in (health.reason or "")

    async def waits_longer_than_every_retry(self, reason: str) -> None:
        """Let time pass; the relay tries again and again by itself."""
        begun = self.clock.shift()
        while self.clock.shift() - begun < OUTAGE:
            tries = self.noting.opened
            self.clock.advance(LONGEST_PAUSE)
            await eventually(lambda tries=tries: self.noting.opened > tries, "it tries again")  # type: ignore[misc]
            await eventually(lambda: self.is_degraded(reason), f"it says: {reason}")

    async def recovers(self, count: int) -> None:
        """Wait until so many have arrived and the relay is well again; stop it."""
        self.clock.advance(LONGEST_PAUSE)
        await self.noting.delivers(count)
        relay = self.relay
        await eventually(lambda: relay.health.status is HealthStatus.OK, "the relay is well again")
        await relay.stop()

    async def assert_untouched(self) -> None:
        """No record has an attempt counted or an error, and none is failed."""
        found = await rows(self.engine)
        assert {(row.retry_count, row.error_message) for row in found} == {(0, None)}
        assert {row.status for row in found} <= {Status.PENDING, Status.PUBLISHED}

    async def assert_all_arrived(self, records: Sequence[OutboxRecord]) -> list[Entry]:
        """All arrived in order, without an attempt counted; give what arrived."""
        await self.assert_untouched()
        assert has_status(await rows(self.engine), Status.PUBLISHED)
        assert await blocked_keys(self.engine) == []
        arrived = await self.mailbox.empty()
        assert records_in(arrived) == {str(each.id) for each in records}
        assert out_of_order(arrived) == []
        assert self.noting.asked_again == []
        assert self.noting.sent_by_itself(Counter(each.record for each in arrived)) == []
        return arrived

    async def assert_all_arrived_once(self, records: Sequence[OutboxRecord]) -> None:
        assert repeats(await self.assert_all_arrived(records)) == []


async def watched_publisher(mailbox: Mailbox, reports: list[Outage | None]) -> RabbitMQPublisher:
    """Open a publisher that reports outages, and their ends, to a list."""
    publisher = mailbox.publisher()
    publisher.watch(reports.append)
    await publisher.open()
    return publisher


@pytest.fixture
def delivery(engine: AsyncEngine, mailbox: Mailbox) -> Delivery:
    return Delivery(engine, mailbox)


@pytest.mark.requirement("C17", "E1")
async def test_a_broker_that_is_stopped_for_longer_than_every_retry_costs_nothing(
    engine: AsyncEngine, broker: Broker, delivery: Delivery, mailbox: Mailbox
) -> None:
    reports: list[Outage | None] = []
    watched = await watched_publisher(mailbox, reports)
    early, late = records_of_keys(100, MANY), records_of_keys(100, 2)
    await save(engine, early)
    async with running(delivery.relay):
        await delivery.noting.delivers(100)
        await asyncio.to_thread(broker.stop)
        await eventually(lambda: len(reports) == 1, "the end of the broker is reported")
        assert "shutdown" in str(reports[0])
        await watched.close()
        await save(engine, late)
        await delivery.waits_longer_than_every_retry("cannot reach RabbitMQ")
        await delivery.assert_untouched()
        assert not has_status(await rows(engine), Status.PUBLISHED)
        await asyncio.to_thread(broker.start)
        await delivery.recovers(len(early) + len(late))

    await delivery.assert_all_arrived(early + late)


@pytest.mark.requirement("C17", "E2")
async def test_a_broker_that_is_killed_in_the_middle_of_deliveries_loses_nothing_it_confirmed(
    engine: AsyncEngine, broker: Broker, delivery: Delivery
) -> None:
    records = records_of_keys(100, MANY)
    await save(engine, records)
    async with running(delivery.relay):
        await delivery.noting.delivers(100)
        broker.kill()
        before = len(delivery.noting.delivered)
        assert before < len(records)
        await eventually(lambda: delivery.is_degraded("cannot reach RabbitMQ"), "it says so")
        await asyncio.to_thread(broker.start)
        await delivery.recovers(len(records))

    await delivery.assert_all_arrived(records)


@pytest.mark.extended
@pytest.mark.requirement("C17", "E2")
async def test_an_alarm_of_the_broker_pauses_deliveries_and_sends_nothing_twice(
    engine: AsyncEngine, broker: Broker, delivery: Delivery
) -> None:
    records = records_of_keys(100, MANY)
    await save(engine, records[:100])
    async with running(delivery.relay):
        await delivery.noting.delivers(100)
        await asyncio.to_thread(broker.alarm, on=True)
        await save(engine, records[100:])
        await eventually(lambda: delivery.is_degraded("low on memory"), "it says so")
        await delivery.waits_longer_than_every_retry("low on memory")
        await delivery.assert_untouched()
        assert len(delivery.noting.delivered) == 100
        await asyncio.to_thread(broker.alarm, on=False)
        await delivery.recovers(len(records))

    await delivery.assert_all_arrived_once(records)


@pytest.mark.extended
@pytest.mark.requirement("E2")
async def test_the_end_of_an_alarm_ends_the_pause_however_long_that_is(
    engine: AsyncEngine, broker: Broker, delivery: Delivery
) -> None:
    records = records_of_keys(100, 2)
    async with running(delivery.relay):
        await asyncio.to_thread(broker.alarm, on=True)
        await save(engine, records)
        await eventually(lambda: delivery.is_degraded("low on memory"), "it says so")
        loop = delivery.relay._loop
        assert loop is not None
        loop.publisher_breaker.retry_at += 3600  # as after a long alarm
        await asyncio.to_thread(broker.alarm, on=False)
        await delivery.recovers(len(records))

    await delivery.assert_all_arrived_once(records)


@pytest.mark.extended
@pytest.mark.requirement("E2")
async def test_an_alarm_is_noticed_while_more_is_written_than_the_broker_will_read(
    engine: AsyncEngine, broker: Broker, delivery: Delivery
) -> None:
    records = records_of_keys(200, 2)
    for record in records:
        record.payload = {"filling": "x" * (MAX_MESSAGE_SIZE - 100)}
    async with running(delivery.relay):
        await eventually(lambda: delivery.relay.idle, "it runs")
        await asyncio.to_thread(broker.alarm, on=True)
        await save(engine, records)
        await eventually(lambda: delivery.is_degraded("low on memory"), "it says so")
        await asyncio.to_thread(broker.alarm, on=False)
        await delivery.recovers(len(records))

    await delivery.assert_all_arrived_once(records)
