"""The relay on real databases: what it delivers, when it tries again, and what it leaves behind."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)

from postroom import (
    ConfigurationError,
    Delayed,
    Health,
    HealthStatus,
    OutageError,
    OutboxEventPublisher,
    OutboxRecord,
    OutboxRelay,
    RetrySchedule,
    SchemaError,
    Status,
    UntypedEvent,
)
from postroom.operations import Operations
from postroom.testing import FakeClock, RecordingPublisher, delivered
from tests.support.shop import outbox
from tests.support.waiting import eventually

__all__ = ["delivered"]

Sessions = async_sessionmaker[AsyncSession]
DAY = timedelta(days=1)


@pytest.fixture
def sessions(database: AsyncEngine) -> Sessions:
    return async_sessionmaker(database, expire_on_commit=False)


@pytest.fixture
def publisher() -> RecordingPublisher:
    return RecordingPublisher()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def relay(database: AsyncEngine, publisher: RecordingPublisher, clock: FakeClock) -> OutboxRelay:
    return OutboxRelay(outbox, database, publisher, poll_interval=DAY, clock=clock)


@pytest.fixture
async def running(relay: OutboxRelay) -> AsyncIterator[OutboxRelay]:
    async with relay.running():
        yield relay


def happened(name: str = "noted", key: str | None = None, **payload: object) -> UntypedEvent:
    kind = None if key is None else "note"
    return UntypedEvent(
        event_type=name, aggregate_type=kind, aggregate_id=key, payload=dict(payload)
    )


async def save(sessions: Sessions, *events: UntypedEvent | Delayed) -> None:
    async with sessions.begin() as session:
        await outbox.dispatcher(session).dispatch(events)


async def records(sessions: Sessions) -> list[OutboxRecord]:
    async with sessions() as session:
        query = select(OutboxRecord).order_by(outbox.tables.records.c.position)
        return list(await session.scalars(query))


async def until(sessions: Sessions, so: Callable[[list[OutboxRecord]], bool]) -> None:
    async def is_so() -> bool:
        return so(await records(sessions))

    await eventually(is_so)


async def only(sessions: Sessions) -> OutboxRecord:
    [record] = await records(sessions)
    return record


def numbers(publisher: RecordingPublisher) -> list[int]:
    return [message.payload["n"] for message in publisher.messages]


@pytest.mark.requirement("A9")
async def test_what_is_undelivered_is_delivered_in_order_and_marked_with_the_time(
    sessions: Sessions, relay: OutboxRelay, publisher: RecordingPublisher
) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    await save(sessions, *(happened(key="a", n=n) for n in range(5)))
    tally = await relay.run_once()
    assert (tally.delivered, numbers(publisher)) == (5, [0, 1, 2, 3, 4])
    for record in await records(sessions):
        assert record.delivered
        assert record.delivered_at is not None
        assert before < record.delivered_at < datetime.now(UTC) + timedelta(seconds=5)


@pytest.mark.requirement("A9", "D6")
async def test_it_polls_every_30_seconds_and_the_background_service_every_5_a_hundred_at_a_time(
    sqlite_file: AsyncEngine, publisher: RecordingPublisher
) -> None:
    relay = OutboxRelay(outbox, sqlite_file, publisher)
    service = OutboxEventPublisher(outbox, sqlite_file, publisher)
    assert relay.settings.poll_interval == timedelta(seconds=30)
    assert service.settings.poll_interval == timedelta(seconds=5)
    assert service.settings.batch_size == 100
    assert service.settings.retry == RetrySchedule.backoff()


@pytest.mark.requirement("A10", "D6")
async def test_with_nothing_to_deliver_it_sleeps_and_polls_again(
    database: AsyncEngine, sessions: Sessions, publisher: RecordingPublisher, clock: FakeClock
) -> None:
    relay = OutboxEventPublisher(outbox, database, publisher, clock=clock)
    async with relay.running():
        await eventually(lambda: relay.idle)
        await insert_unnoticed(database)
        clock.advance(timedelta(seconds=5))
        await eventually(lambda: publisher.messages)
    assert (await only(sessions)).delivered


async def insert_unnoticed(database: AsyncEngine) -> None:
    """Save a record as another process would: nothing here is woken by it."""
    values = {
        "id": UUID(int=1),
        "event_type": "x",
        "partition": 0,
        "payload": {},
        "occurred_at": datetime.now(UTC),
    }
    async with database.begin() as connection:
        await connection.execute(outbox.tables.records.insert().values(**values))


async def test_a_commit_in_the_same_process_wakes_it(
    database: AsyncEngine, sessions: Sessions, publisher: RecordingPublisher
) -> None:
    async with OutboxRelay(outbox, database, publisher, poll_interval=DAY).running() as relay:
        await eventually(lambda: relay.idle, "it has looked once, and will poll in a day")
        await save(sessions, happened(n=1))
        await eventually(lambda: numbers(publisher) == [1])


@pytest.mark.requirement("A12")
@pytest.mark.requirement("C10")
@pytest.mark.requirement("D9")
@pytest.mark.requirement("C18")
async def test_a_refused_record_is_counted_and_tried_again_with_its_error_kept(
    sessions: Sessions,
    relay: OutboxRelay,
    publisher: RecordingPublisher,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    publisher.refuse("noted", "the queue is full", times=2)
    await save(sessions, happened(n=1), happened("other", n=2))
    await relay.run_once()  # the first retry is at once
    first, second = await records(sessions)
    assert (first.status, first.retry_count) == (Status.PENDING, 2)
    assert first.error_message == "the queue is full"
    assert second.delivered
    errors = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert len(errors) == 2
    assert "the queue is full" in errors[0].getMessage()

    clock.advance(timedelta(seconds=1.5))
    await relay.run_once()
    first, _ = await records(sessions)
    assert (first.delivered, first.error_message, first.retry_count) == (True, None, 2)
    assert first.processed_at is not None


@pytest.mark.requirement("D7")
async def test_a_record_that_is_not_due_is_skipped(
    database: AsyncEngine, sessions: Sessions, publisher: RecordingPublisher, clock: FakeClock
) -> None:
    # In hours: real time goes on, too.
    retry = RetrySchedule.seconds(*(3600 * hours for hours in (0, 1, 2, 5)), forever=True)
    relay = OutboxRelay(outbox, database, publisher, retry=retry, clock=clock)
    publisher.refuse("noted", times=4)
    await save(sessions, happened(n=1))
    await relay.run_once()  # and again at once
    for hours, count in [(0.5, 2), (1, 3), (1, 3), (1.5, 4), (3, 4), (3, 4)]:
        clock.advance(timedelta(hours=hours))
        await relay.run_once()
        assert (await only(sessions)).retry_count == count
    assert (await only(sessions)).delivered


@pytest.mark.requirement("A13")
@pytest.mark.requirement("C10")
@pytest.mark.requirement("C11")
@pytest.mark.requirement("C18")
async def test_at_the_limit_it_is_failed_with_one_critical_log_and_left_alone(
    database: AsyncEngine,
    sessions: Sessions,
    publisher: RecordingPublisher,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    relay = OutboxRelay(outbox, database, publisher, retry=RetrySchedule.tiers(), clock=clock)
    publisher.refuse("noted", "no", times=100)
    await save(sessions, happened(n=1))
    async with sessions.begin() as session:
        await session.execute(update(OutboxRecord).values(retry_count=8))
    for count, status in [(9, Status.PENDING), (10, Status.FAILED)]:
        await relay.run_once()
        record = await only(sessions)
        assert (record.status, record.retry_count, record.error_message) == (status, count, "no")
        clock.advance(timedelta(minutes=5))
    clock.advance(DAY)
    await relay.run_once()
    critical = [each for each in caplog.records if each.levelno == logging.CRITICAL]
    assert len(critical) == 1
    assert str(record.id) in critical[0].getMessage()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.requirement("A13")
async def test_a_record_found_at_its_limit_is_failed_untried_with_one_critical_log(
    sessions: Sessions,
    relay: OutboxRelay,
    publisher: RecordingPublisher,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await save(sessions, happened(n=1))
    async with sessions.begin() as session:
        await session.execute(update(OutboxRecord).values(retry_count=10, error_message="old"))
    await relay.run_once()
    await relay.run_once()
    record = await only(sessions)
    assert (record.status, record.retry_count, record.error_message) == ("failed", 10, "old")
    assert publisher.messages == ()
    assert [each.levelno for each in caplog.records].count(logging.CRITICAL) == 1


@pytest.mark.requirement("C11")
@pytest.mark.requirement("C16")
async def test_a_failed_record_holds_its_key_alone_until_it_is_retried_by_hand(
    sessions: Sessions,
    relay: OutboxRelay,
    publisher: RecordingPublisher,
    delivered: Callable[[], Awaitable[object]],
) -> None:
    publisher.refuse("noted", permanent=True)
    await save(sessions, happened(key="a", n=1), *(happened("n", key="a", n=n) for n in (2, 3)))
    await save(sessions, happened("n", key="b", n=10), happened("n", n=20))
    await delivered()
    assert sorted(numbers(publisher)) == [10, 20]
    await save(sessions, happened("n", key="a", n=4))
    await delivered()
    first = (await records(sessions))[0]
    assert (first.status, first.retry_count) == (Status.FAILED, 1)

    publisher.clear()
    assert await Operations(outbox, relay.engine).retry([first.id]) == 1
    assert (await records(sessions))[0].retry_count == 0
    await delivered()
    assert numbers(publisher) == [1, 2, 3, 4]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_with_on_failed_continue_nobody_waits_for_a_failed_record(
    database: AsyncEngine, sessions: Sessions, publisher: RecordingPublisher, clock: FakeClock
) -> None:
    later = RetrySchedule.seconds(60)
    options: dict[str, Any] = {"on_failed": "continue", "retry": later}
    relay = OutboxRelay(outbox, database, publisher, clock=clock, **options)
    publisher.refuse("noted", times=2)
    await save(sessions, happened(key="a", n=1), *(happened("n", key="a", n=n) for n in (2, 3)))
    async with sessions.begin() as session:
        await session.execute(update(OutboxRecord).values(max_retries=2))
    await relay.run_once()
    assert numbers(publisher) == []  # as long as it is tried again, they wait
    clock.advance(timedelta(minutes=2))
    await relay.run_once()
    assert numbers(publisher) == [2, 3]
    first, *_ = await records(sessions)
    assert first.status == Status.FAILED


@pytest.mark.requirement("C14")
@pytest.mark.requirement("C18")
async def test_what_was_delivered_longer_ago_than_the_retention_is_deleted(
    sessions: Sessions, relay: OutboxRelay, publisher: RecordingPublisher, clock: FakeClock
) -> None:
    publisher.refuse("bad", permanent=True)
    await save(sessions, happened("bad"), *(happened(n=n) for n in range(3)))
    await relay.run_once()
    clock.advance(7 * DAY - timedelta(hours=1))
    assert await relay.clean() == 0
    clock.advance(timedelta(hours=2))
    assert await relay.clean() == 3
    assert (await only(sessions)).status == Status.FAILED


@pytest.mark.requirement("C14")
async def test_a_running_relay_cleans_up_by_itself(
    sessions: Sessions, running: OutboxRelay, publisher: RecordingPublisher, clock: FakeClock
) -> None:
    await save(sessions, happened(n=1))
    await until(sessions, lambda found: [each.status for each in found] == ["published"])
    clock.advance(8 * DAY)

    def gone(found: list[OutboxRecord]) -> bool:
        clock.advance(timedelta(minutes=11))  # it may have been at it just then
        return not found

    await until(sessions, gone)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_with_a_retention_of_zero_a_delivered_record_is_gone_at_once(
    database: AsyncEngine, sessions: Sessions, publisher: RecordingPublisher
) -> None:
    relay = OutboxRelay(outbox, database, publisher, retention=timedelta())
    await save(sessions, happened(n=1))
    await relay.run_once()
    assert (numbers(publisher), await records(sessions)) == ([1], [])


async def test_an_outage_burns_no_attempt_and_health_says_so_until_it_is_over(
    sessions: Sessions, running: OutboxRelay, publisher: RecordingPublisher, clock: FakeClock
) -> None:
    publisher.outage = "the broker is on holiday"
    await save(sessions, *(happened(key="a", n=n) for n in range(3)))
    await eventually(lambda: running.health.status == HealthStatus.DEGRADED)
    assert "on holiday" in str(running.health.reason)
    for _ in range(100):  # for longer than every schedule
        clock.advance(timedelta(minutes=30))
        await asyncio.sleep(0)
    assert {(each.retry_count, each.status) for each in await records(sessions)} == {(0, "pending")}
    publisher.outage = None
    clock.advance(timedelta(minutes=1))
    await eventually(lambda: numbers(publisher) == [0, 1, 2])
    await eventually(lambda: running.health == Health(status=HealthStatus.OK))


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_delivering_once_says_that_there_is_an_outage(
    sessions: Sessions, relay: OutboxRelay, publisher: RecordingPublisher
) -> None:
    await save(sessions, happened(n=1))
    publisher.outage = "away"
    with pytest.raises(OutageError, match="away"):
        await relay.run_once()
    publisher.outage = None
    assert (await relay.run_once()).delivered == 1


@pytest.mark.requirement("E9")
async def test_a_delayed_event_leaves_at_its_time_and_nobody_waits_for_it(
    sessions: Sessions, relay: OutboxRelay, publisher: RecordingPublisher, clock: FakeClock
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    await save(sessions, Delayed(happened(key="a", n=1), until=later), happened(key="a", n=2))
    await relay.run_once()
    assert numbers(publisher) == [2]
    clock.advance(timedelta(minutes=59))
    await relay.run_once()
    assert numbers(publisher) == [2]
    clock.advance(timedelta(minutes=1))
    await relay.run_once()
    assert numbers(publisher) == [2, 1]


@pytest.mark.requirement("E9")
async def test_a_running_relay_sleeps_until_a_delayed_event_is_due(
    sessions: Sessions, running: OutboxRelay, publisher: RecordingPublisher
) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.3)  # the poll comes after 30
    await save(sessions, Delayed(happened(n=1), until=soon))
    await eventually(lambda: numbers(publisher) == [1])


async def test_missing_tables_are_named_at_the_start(
    tmp_path: Path, publisher: RecordingPublisher
) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'empty.db'}")
    relay = OutboxRelay(outbox, engine, publisher)
    with pytest.raises(SchemaError, match="no table `outbox`"):
        await relay.run()
    assert relay.health.status == HealthStatus.STOPPED
    assert "no table `outbox`" in str(relay.health.reason)
    await engine.dispose()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_a_relay_that_is_running_cannot_be_started_again(
    running: OutboxRelay,
) -> None:
    await eventually(lambda: running.health.status == HealthStatus.OK)
    with pytest.raises(ConfigurationError, match="running already"):
        await running.run_once()
