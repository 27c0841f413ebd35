"""A relay on databases with odd names, time zones, transactions and tables of others."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import MetaData, event, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from postroom import Delayed, HealthStatus, Outbox, OutboxRecord, OutboxRelay, RetrySchedule
from postroom.inspection import Inspector
from postroom.operations import Operations
from postroom.testing import FakeClock, RecordingPublisher
from tests.support.gated_publisher import GatedPublisher, happened, running
from tests.support.rows import all_delivered, rows, save, until
from tests.support.shop import Base, outbox
from tests.support.waiting import eventually


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_a_clean_up_that_fails_does_not_end_the_relay(
    engine: AsyncEngine,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    publisher = GatedPublisher()
    relay = OutboxRelay(outbox, engine, publisher, clock=clock)

    await save(engine, happened("old"))
    await relay.run_once()
    clock.advance(timedelta(days=8))
    await execute(engine, "CREATE TABLE edges_audit (event uuid REFERENCES outbox (id))")
    try:
        await execute(engine, "INSERT INTO edges_audit SELECT id FROM outbox")
        async with running(relay, publisher):
            await eventually(lambda: "the clean-up has to wait" in caplog.text)
            await save(engine, happened("new"))
            await until(engine, all_delivered)
            assert relay.health.status == HealthStatus.OK
            await execute(engine, "DROP TABLE edges_audit")
            clock.advance(timedelta(minutes=11))
            await until(engine, lambda found: [each.event_type for each in found] == ["new"])
    finally:
        await execute(engine, "DROP TABLE IF EXISTS edges_audit")
    assert publisher.arrived == ["old", "new"]


async def execute(engine: AsyncEngine, statement: str) -> None:
    async with engine.begin() as connection:
        await connection.execute(text(statement))


@pytest.mark.parametrize("driver", ["asyncpg", pytest.param("psycopg", marks=pytest.mark.extended)])
@pytest.mark.parametrize("table", ["Out\"b'o:x % a\\:c", "%(x)s"])
async def test_a_table_may_have_any_name(
    engine: AsyncEngine, postgres_url: str, driver: str, table: str
) -> None:
    if (driver, table, sqlalchemy.__version__) == ("asyncpg", "%(x)s", "2.0.31"):
        pytest.skip("SQLAlchemy 2.0.31 takes the name for a parameter")

    class OddRecord(OutboxRecord):
        pass

    url = engine.url.set(drivername=f"postgresql+{driver}")
    metadata = MetaData()
    odd = Outbox(metadata, table=table, record=OddRecord)
    database, publisher, clock = create_async_engine(url), RecordingPublisher(), FakeClock()
    relay = OutboxRelay(odd, database, publisher, clock=clock, retry=RetrySchedule.seconds(60))
    try:
        async with database.begin() as connection:
            await connection.run_sync(odd.create_tables)
        async with AsyncSession(database) as session:
            named = [happened("first", "k"), happened("second", "k"), happened("other")]
            await odd.dispatcher(session).dispatch(named)
            await session.commit()
        publisher.refuse("first")
        assert (await relay.run_once()).delivered == 1
        assert (await Inspector(odd, database).overview()).parked == 1
        clock.advance(timedelta(minutes=2))
        assert (await relay.run_once()).delivered == 2
        assert [each.event_type for each in publisher.messages] == ["other", "first", "second"]
        clock.advance(timedelta(days=8))
        assert await relay.clean() == 3
    finally:
        async with database.begin() as connection:
            await connection.run_sync(metadata.drop_all)
        await database.dispose()


@pytest.fixture
async def immediate(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """A SQLite file whose transactions begin as SQLAlchemy's documentation tells."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")

    @event.listens_for(engine.sync_engine, "connect")
    def leave_transactions_to_us(connection: Any, record: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield engine
    await engine.dispose()


async def test_a_relay_works_on_sqlite_whose_transactions_begin_immediately(
    immediate: AsyncEngine, clock: FakeClock
) -> None:
    publisher = RecordingPublisher()
    publisher.refuse("bad", permanent=True)
    relay = OutboxRelay(outbox, immediate, publisher, clock=clock)

    async def bad_has_failed() -> bool:
        return (await Inspector(outbox, relay.engine).overview()).failed == 1

    await save(immediate, happened("bad", "k"), happened("follower", "k"), happened("one"))
    await relay.store.open()
    async with relay.running():
        await eventually(lambda: publisher.published("one"))
        await save(immediate, happened("two"))
        await eventually(lambda: publisher.published("two"))
        await eventually(bad_has_failed)
        [bad] = [each for each in await rows(immediate) if each.status == "failed"]
        assert await Operations(outbox, relay.engine).retry([bad.id]) == 1
        relay.wake()
        await until(immediate, all_delivered)
    names = [each.event_type for each in publisher.messages]
    assert sorted(names) == ["bad", "follower", "one", "two"]
    assert names.index("bad") < names.index("follower")
    clock.advance(timedelta(days=8))
    assert await relay.clean() == 4


@pytest.mark.extended
async def test_a_relay_that_joins_gets_its_share_although_the_first_one_has_claimed_everything(
    engine: AsyncEngine,
) -> None:
    names = [str(number) for number in range(40)]
    stuck, other = GatedPublisher(*names, max_in_flight=1), GatedPublisher()
    hour = timedelta(hours=1)
    first, second = (OutboxRelay(outbox, engine, it, poll_interval=hour) for it in (stuck, other))
    await save(engine, *map(happened, names))
    async with running(first, stuck):
        await eventually(lambda: len(stuck.started) == 1)
        async with running(second, other):
            await eventually(lambda: len(other.arrived) >= 10)
            assert len(stuck.started) == 1


async def test_the_time_zone_of_a_connection_changes_nothing_about_when_records_leave(
    engine: AsyncEngine, postgres_url: str, clock: FakeClock
) -> None:
    settings = {"timezone": "Asia/Kolkata"}
    far = create_async_engine(postgres_url, connect_args={"server_settings": settings})
    publisher = RecordingPublisher()
    publisher.refuse("refused")
    relay = OutboxRelay(outbox, far, publisher, clock=clock, retry=RetrySchedule.seconds(3600))
    later = datetime.now(UTC) + timedelta(hours=1)
    delayed = Delayed(happened("delayed"), until=later)
    await save(far, happened("refused"), delayed, happened("plain"))

    def left() -> list[str]:
        return sorted(each.event_type for each in publisher.messages)

    assert (await relay.run_once()).delivered == 1
    clock.advance(timedelta(minutes=58))
    assert (await relay.run_once()).delivered == 0
    clock.advance(timedelta(minutes=3))
    assert (await relay.run_once()).delivered == 2
    assert left() == ["delayed", "plain", "refused"]
    clock.advance(timedelta(days=7) - timedelta(hours=2))
    assert await relay.clean() == 0
    clock.advance(timedelta(hours=4))
    assert await relay.clean() == 3
    await far.dispose()
