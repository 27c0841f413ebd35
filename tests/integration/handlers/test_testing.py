"""What users get for their own tests, used as they would use it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
)

from postroom import OutageError, OutboxRelay, Refused, UntypedEvent
from postroom.testing import FakeClock, RecordingPublisher, delivered
from tests.support.claims import claimed
from tests.support.shop import outbox
from tests.support.waiting import PATIENCE

__all__ = ["delivered"]

Deliver = Callable[[], Awaitable[object]]


@pytest.fixture
def shop(sqlite_file: AsyncEngine) -> AsyncEngine:
    return sqlite_file


@pytest.fixture
def publisher() -> RecordingPublisher:
    return RecordingPublisher()


@pytest.fixture
def relay(shop: AsyncEngine, publisher: RecordingPublisher) -> OutboxRelay:
    return OutboxRelay(outbox, shop, publisher)


def placed(total: int = 99) -> UntypedEvent:
    return UntypedEvent(event_type="order.placed", payload={"total": total})


async def save(shop: AsyncEngine, *events: UntypedEvent) -> None:
    sessions: async_sessionmaker[AsyncSession] = async_sessionmaker(shop)
    async with sessions.begin() as session:
        await outbox.dispatcher(session).dispatch(events)


@pytest.mark.requirement("E5")
async def test_everything_pending_is_delivered_now_and_can_be_asked_for(
    shop: AsyncEngine, publisher: RecordingPublisher, delivered: Deliver
) -> None:
    await save(shop, placed(99), placed(12))
    publisher.assert_not_published("order.placed")
    await delivered()
    assert publisher.assert_published("order.placed", total=99).payload == {"total": 99}
    assert len(publisher.published("order.placed")) == 2
    publisher.clear()
    publisher.assert_not_published("order.placed")


@pytest.mark.requirement("E5")
async def test_what_was_expected_is_named_beside_what_there_was(
    shop: AsyncEngine, publisher: RecordingPublisher, delivered: Deliver
) -> None:
    await save(shop, placed(12))
    await delivered()
    with pytest.raises(AssertionError, match=r"was published 0 times. There was:\n.*12"):
        publisher.assert_published("order.placed", total=99)
    with pytest.raises(AssertionError, match="was published 0 times"):
        publisher.assert_published("order.paid")
    with pytest.raises(AssertionError, match="was published 1 times"):
        publisher.assert_not_published("order.placed", total=12)


@pytest.mark.requirement("E5")
async def test_a_publisher_refuses_as_often_as_it_is_told_and_no_other_type(
    publisher: RecordingPublisher,
) -> None:
    publisher.refuse("order.placed", "full", times=2)
    publisher.refuse("order.placed", "never", permanent=True)
    other = UntypedEvent(event_type="order.paid", payload={})
    answers = [
        await publisher.publish([claimed(placed()), claimed(other, position=2)]) for _ in range(4)
    ]
    first = [answer[0] for answer in answers]
    assert first[:3] == [Refused("full"), Refused("full"), Refused("never", permanent=True)]
    assert len(publisher.published("order.placed")) == 1
    assert len(publisher.published("order.paid")) == 4


async def test_an_outage_uses_no_refusal_up(publisher: RecordingPublisher) -> None:
    publisher.refuse("order.placed", "full")
    publisher.outage = "away"
    with pytest.raises(OutageError, match="away"):
        await publisher.publish([claimed(placed())])
    publisher.outage = None
    assert list(await publisher.publish([claimed(placed())])) == [Refused("full")]


@pytest.mark.requirement("E5")
async def test_whoever_waits_by_a_fake_clock_wakes_up_when_it_is_moved() -> None:
    clock, event = FakeClock(), asyncio.Event()
    before = clock.monotonic()
    waiting = asyncio.create_task(clock.wait(event, 3600))
    await asyncio.sleep(0)
    clock.advance(timedelta(minutes=59))
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    clock.advance(timedelta(minutes=2))
    async with asyncio.timeout(PATIENCE):
        await waiting
    assert not event.is_set()
    assert clock.monotonic() - before >= 3660
    assert clock.shift() == timedelta(minutes=61)


async def test_whoever_waits_by_a_fake_clock_wakes_up_for_what_it_waits_for() -> None:
    clock, event = FakeClock(), asyncio.Event()
    waiting = asyncio.create_task(clock.wait(event, 3600))
    await asyncio.sleep(0)
    event.set()
    async with asyncio.timeout(PATIENCE):
        await waiting


async def test_a_fake_clock_ticks_by_itself() -> None:
    async with asyncio.timeout(PATIENCE):
        await FakeClock().wait(asyncio.Event(), 0.01)


@pytest.mark.requirement("E5")
async def test_a_fake_clock_moves_the_database_s_clock_too(
    shop: AsyncEngine, publisher: RecordingPublisher
) -> None:
    clock = FakeClock()
    relay = OutboxRelay(outbox, shop, publisher, clock=clock)
    await save(shop, placed())
    clock.advance(timedelta(days=400))
    await relay.run_once()
    async with shop.connect() as connection:
        published_at = await connection.scalar(select(outbox.tables.records.c.published_at))
    assert published_at is not None
    assert published_at - datetime.now(UTC) > timedelta(days=399)
