"""Who hears of a commit over a connection, and who has to be told."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Set
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import Session

from postroom import MemoryPublisher, OutboxRelay, UntypedEvent
from postroom.record import PARTITIONS
from tests.integration.capture.connections import plain, raw_asyncpg
from tests.support.rows import rows
from tests.support.shop import outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("E13")

HOUR = timedelta(hours=1)
UNREFERRED = text(
    "INSERT INTO accounts (id, email, name, referrer_id)"
    " VALUES (gen_random_uuid(), '', '', gen_random_uuid())"
)
"""Refused by COMMIT."""


def event() -> UntypedEvent:
    return UntypedEvent(event_type="x", payload={})


@pytest.fixture
def calls() -> Iterator[list[Set[int]]]:
    """The partitions of each commit that was heard of."""
    calls: list[Set[int]] = []
    unsubscribe = outbox.on_commit(calls.append)
    yield calls
    unsubscribe()


def test_a_commit_calls_once_with_the_partitions(
    sync_database: Engine, calls: list[Set[int]]
) -> None:
    with sync_database.begin() as connection:
        for _ in range(3):
            outbox.save_sync(connection, [event(), event()])
        assert calls == []
        found = {row.partition for row in connection.execute(outbox.tables.records.select())}
    assert calls == [found]


def test_each_commit_of_a_connection_calls(sync_database: Engine, calls: list[Set[int]]) -> None:
    with sync_database.connect() as connection:
        for _ in range(2):
            outbox.save_sync(connection, [event()])
            connection.commit()
        assert len(calls) == 2
        connection.execute(text("SELECT 1"))
        connection.commit()
        assert len(calls) == 2


def test_a_rollback_calls_nobody_then_or_later(
    sync_database: Engine, calls: list[Set[int]]
) -> None:
    with sync_database.connect() as connection:
        for _ in range(3):
            outbox.save_sync(connection, [event()])
            connection.rollback()
        connection.execute(text("SELECT 1"))
        connection.commit()
        assert calls == []
        outbox.save_sync(connection, [event()])
        connection.commit()
        assert len(calls) == 1


def test_the_release_of_a_savepoint_calls_nobody_and_the_commit_does(
    sync_database: Engine, calls: list[Set[int]]
) -> None:
    with sync_database.begin() as connection:
        with connection.begin_nested():
            outbox.save_sync(connection, [event()])
        assert calls == []
    assert len(calls) == 1


def test_a_commit_that_fails_calls_nobody(sync_engine: Engine, calls: list[Set[int]]) -> None:
    with sync_engine.connect() as connection:
        outbox.save_sync(connection, [event()])
        connection.execute(UNREFERRED)
        with pytest.raises(IntegrityError):
            connection.commit()
        connection.rollback()
        connection.execute(text("SELECT 1"))
        connection.commit()
    assert calls == []


def test_the_connection_of_a_session_calls_when_the_session_commits(
    sync_engine: Engine, calls: list[Set[int]]
) -> None:
    with Session(sync_engine) as session:
        outbox.save_sync(session.connection(), [event()])
        session.commit()
    assert len(calls) == 1


async def test_the_records_are_there_when_it_is_called(database: AsyncEngine) -> None:
    heard = asyncio.Event()
    unsubscribe = outbox.on_commit(lambda _: heard.set())
    async with database.begin() as connection:
        await outbox.save(connection, [event()])
        assert not heard.is_set()
    unsubscribe()
    assert heard.is_set()
    assert len(await rows(database)) == 1


async def test_who_has_unsubscribed_is_not_called(
    engine: AsyncEngine, calls: list[Set[int]]
) -> None:
    unsubscribe = outbox.on_commit(calls.append)
    async with engine.begin() as connection:
        await outbox.save(connection, [event()])
        unsubscribe()
    assert len(calls) == 1


async def test_when_nobody_subscribes_a_connection_is_left_alone(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await outbox.save(connection, [event()])
        assert "_commit_impl" not in vars(connection.sync_connection)


@asynccontextmanager
async def polling_hourly(engine: AsyncEngine) -> AsyncIterator[MemoryPublisher]:
    """Run a relay that finds nothing by itself."""
    publisher = MemoryPublisher()
    relay = OutboxRelay(outbox, engine, publisher, poll_interval=HOUR, listen=None)
    running = asyncio.create_task(relay.run())
    await save(engine)  # the first, so that it is known to run
    await eventually(lambda: len(publisher.messages) == 1)
    yield publisher
    await relay.stop()
    await running


async def save(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await outbox.save(connection, [event()])


async def test_a_commit_wakes_a_relay_in_the_process(database: AsyncEngine) -> None:
    async with polling_hourly(database) as publisher:
        await save(database)
        await eventually(lambda: len(publisher.messages) == 2)


async def test_wake_relays_wakes_a_relay_after_a_commit_that_only_the_driver_saw(
    engine: AsyncEngine, postgres_url: str
) -> None:
    async with polling_hourly(engine) as publisher:
        async with raw_asyncpg(postgres_url) as transaction:
            await transaction.save(event())
        outbox.wake_relays()
        await eventually(lambda: len(publisher.messages) == 2)


def test_wake_relays_calls_with_all_partitions(calls: list[Set[int]]) -> None:
    outbox.wake_relays()
    assert calls == [set(range(PARTITIONS))]


async def test_a_commit_notifies_workers_in_other_processes(
    engine: AsyncEngine, postgres_url: str
) -> None:
    notifier = outbox.notify_workers(engine)
    async with await psycopg.AsyncConnection.connect(plain(postgres_url), autocommit=True) as ear:
        await ear.execute("LISTEN outbox_channel")
        await save(engine)
        async for notification in ear.notifies(stop_after=1):
            assert notification.payload.startswith("outbox ")
    notifier.close()
