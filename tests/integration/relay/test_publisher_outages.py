"""A publisher that cannot be opened, or breaks: its relay waits, and counts no attempt."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import ConfigurationError, HealthStatus, OutageError, OutboxRelay, RetrySchedule
from postroom.clock import Clock
from postroom.errors import ConnectionLostError
from postroom.relay.relay import OPEN_WITHIN
from postroom.testing import FakeClock
from tests.support.gated_publisher import GatedPublisher, happened, running
from tests.support.rows import all_delivered, rows, save, until
from tests.support.shop import outbox
from tests.support.waiting import PATIENCE, eventually, happens

LONGEST_PAUSE = timedelta(seconds=31)
"""After which an outage is looked at again, however long it has been."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.mark.parametrize("error", [RuntimeError("ACCESS_REFUSED mq:5672"), OutageError("mq:5672")])
async def test_whatever_opening_raises_after_an_outage_is_waited_out(
    engine: AsyncEngine, clock: FakeClock, error: Exception
) -> None:
    publisher = GatedPublisher()
    relay = OutboxRelay(outbox, engine, publisher, clock=clock)
    async with running(relay, publisher):
        await eventually(lambda: relay.idle)
        publisher.away, publisher.shut = OutageError("no line"), error
        await save(engine, happened("one"))
        for opened in (2, 3):
            await eventually(lambda: relay.health.status == HealthStatus.DEGRADED)
            clock.advance(LONGEST_PAUSE)
            await eventually(lambda wanted=opened: publisher.opened >= wanted)  # type: ignore[misc]
        await eventually(lambda: "mq:5672" in str(relay.health.reason))
        assert publisher.started == ["one"]  # nothing is sent by a publisher that is not open
        publisher.away = publisher.shut = None
        clock.advance(LONGEST_PAUSE)
        await until(engine, all_delivered)
        await eventually(lambda: relay.health.status == HealthStatus.OK)
    assert [each.retry_count for each in await rows(engine)] == [0]


@pytest.mark.parametrize("error", [ConnectionRefusedError("mq"), OutageError("mq")])
async def test_a_relay_whose_publisher_is_away_at_the_start_waits_for_it(
    engine: AsyncEngine, clock: FakeClock, error: Exception
) -> None:
    publisher = GatedPublisher()
    publisher.shut = error
    relay = OutboxRelay(outbox, engine, publisher, clock=clock)
    await save(engine, happened("one"))
    async with running(relay, publisher):
        await eventually(lambda: relay.health.status == HealthStatus.DEGRADED)
        publisher.shut = None
        clock.advance(LONGEST_PAUSE)
        await until(engine, all_delivered)


class OpensSlowly(GatedPublisher):
    """Opens at once the first times, and from then on when its gate is set."""

    def __init__(self, *, quick: int) -> None:
        super().__init__()
        self._quick = quick

    async def open(self) -> None:
        await super().open()
        if self.opened > self._quick:
            await self.gate.wait()


async def test_a_relay_that_is_stopped_while_its_publisher_opens_does_not_wait_for_it(
    engine: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = OpensSlowly(quick=0)
    async with OutboxRelay(outbox, engine, publisher).running() as relay:
        await eventually(lambda: publisher.opened)
        async with asyncio.timeout(OPEN_WITHIN / 2):
            await relay.stop()
    assert relay.health.status == HealthStatus.STOPPED
    assert "did not open" not in caplog.text


class CountingClock(Clock):
    """Counts how often somebody waits, which the loop does once in a turn."""

    def __init__(self) -> None:
        self.waits = 0

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        self.waits += 1
        await super().wait(event, seconds)


@pytest.mark.extended
async def test_the_loop_sleeps_while_the_publisher_is_being_opened(engine: AsyncEngine) -> None:
    publisher, clock = OpensSlowly(quick=1), CountingClock()
    publisher.away = OutageError("no line")
    relay = OutboxRelay(outbox, engine, publisher, clock=clock)
    await save(engine, *map(happened, "abcdefgh"))
    async with running(relay, publisher):
        await eventually(lambda: publisher.opened == 2)
        before = clock.waits
        assert not await happens(lambda: clock.waits > before + 20, within=0.5)
        assert publisher.opened == 2
        publisher.away = None
        publisher.gate.set()
        await until(engine, all_delivered)


async def test_a_publisher_that_is_set_up_wrongly_ends_the_start(engine: AsyncEngine) -> None:
    publisher = GatedPublisher()
    publisher.shut = ConfigurationError("there is no such exchange")
    relay = OutboxRelay(outbox, engine, publisher)
    with pytest.raises(ConfigurationError, match="no such exchange"):
        await asyncio.wait_for(relay.run(), PATIENCE)
    assert relay.health.status == HealthStatus.STOPPED


@pytest.mark.requirement("C17")
@pytest.mark.parametrize("error", [ConnectionLostError("reset"), ConnectionResetError("reset")])
async def test_a_publisher_that_opens_and_breaks_each_time_costs_no_attempt(
    engine: AsyncEngine, clock: FakeClock, error: Exception
) -> None:
    publisher = GatedPublisher()
    publisher.away = error
    retry = RetrySchedule.seconds(1)
    relay = OutboxRelay(outbox, engine, publisher, clock=clock, retry=retry)
    await save(engine, *map(happened, "abcde"))
    async with running(relay, publisher):
        for _ in range(8):
            calls = len(publisher.started)
            clock.advance(LONGEST_PAUSE)
            await eventually(lambda before=calls: len(publisher.started) > before)  # type: ignore[misc]
        found = await rows(engine)
        assert {(each.status, each.retry_count) for each in found} == {("pending", 0)}
        publisher.away = None
        clock.advance(LONGEST_PAUSE)
        await until(engine, all_delivered)
    assert sorted(publisher.arrived) == list("abcde")
