"""The relay where things coincide: a stop, an outage, a lease that ends, a call that does not."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import MetaData, event, select, text
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)

from postroom import (
    ConfigurationError,
    Delayed,
    EventRegistry,
    HandlersPublisher,
    HealthStatus,
    OutageError,
    Outbox,
    OutboxRecord,
    OutboxRelay,
    RetrySchedule,
    SchemaError,
    UntypedEvent,
)
from postroom.clock import Clock
from postroom.errors import ConnectionLostError
from postroom.operations import Operations
from postroom.publishers.base import DELIVERED, Outcome, Refused
from postroom.record import ClaimedRecord
from postroom.relay import delivery
from postroom.relay.relay import OPEN_WITHIN
from postroom.testing import FakeClock, RecordingPublisher
from tests.support.shop import Base, outbox
from tests.support.waiting import PATIENCE, eventually, happens

Sessions = async_sessionmaker[AsyncSession]
LEASE = timedelta(seconds=30)
LONG = timedelta(hours=1)
LONGEST_PAUSE = timedelta(seconds=31)
"""After which an outage is looked at again, however long it has been."""


class Way:
    """A way out whose records are called after their event types; some wait at its door."""

    max_batch = 1
    max_in_flight = 10

    def __init__(self, *slow: str) -> None:
        self.started: list[str] = []
        self.arrived: list[str] = []
        self.opened = 0
        self.away: Exception | None = None
        """What a delivery raises when it starts."""
        self.shut: Exception | None = None
        """What opening raises."""
        self.door = asyncio.Event()
        self._slow = slow

    async def open(self) -> None:
        self.opened += 1
        if self.shut is not None:
            raise self.shut

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        return [await self.take(record) for record in records]

    async def close(self) -> None:
        pass

    async def take(self, record: ClaimedRecord) -> Outcome:
        self.started.append(record.event_type)
        if self.away is not None:
            raise self.away
        if record.event_type in self._slow:
            await self.door.wait()
        self.arrived.append(record.event_type)
        return DELIVERED


class Stubborn(Way):
    """Heeds no cancellation: what waits at its door goes on waiting."""

    async def take(self, record: ClaimedRecord) -> Outcome:
        delivery = asyncio.ensure_future(super().take(record))
        while not delivery.done():
            try:
                await asyncio.shield(delivery)
            except asyncio.CancelledError:
                continue
        return delivery.result()


@pytest.fixture
def sessions(engine: AsyncEngine) -> Sessions:
    return async_sessionmaker(engine, expire_on_commit=False)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@asynccontextmanager
async def running(relay: OutboxRelay, way: Way) -> AsyncIterator[None]:
    """Run a relay for as long as the block lasts; nothing keeps it from ending then."""
    async with relay.running():
        try:
            yield
        finally:
            way.away = way.shut = None
            way.door.set()


def happened(name: str, key: str | None = None) -> UntypedEvent:
    """Make an event; each name is a key of its own unless told otherwise."""
    return UntypedEvent(
        event_type=name, aggregate_type="note", aggregate_id=key or name, payload={}
    )


async def save(sessions: Sessions, *events: str | UntypedEvent | Delayed) -> None:
    named = [happened(each) if isinstance(each, str) else each for each in events]
    async with sessions.begin() as session:
        await outbox.dispatcher(session).dispatch(named)


async def records(sessions: Sessions) -> list[OutboxRecord]:
    async with sessions() as session:
        query = select(OutboxRecord).order_by(outbox.tables.records.c.position)
        return list(await session.scalars(query))


async def statuses(sessions: Sessions) -> dict[str, str]:
    return {each.event_type: each.status for each in await records(sessions)}


async def published(sessions: Sessions) -> None:
    """Wait until everything is written down as delivered."""

    async def so() -> bool:
        return {each.status for each in await records(sessions)} == {"published"}

    await eventually(so)


async def time_left(engine: AsyncEngine, until: str = "leased_until") -> timedelta | None:
    """Tell how long the leases that somebody holds will last at least, without a shift."""
    table = "outbox_leases" if until == "leased_until" else "outbox_workers"
    held = text(f"SELECT min({until} - now()) FROM {table} WHERE worker IS NOT NULL")
    async with engine.connect() as connection:
        left: timedelta | None = await connection.scalar(held)
        return left


async def outlast_leases(engine: AsyncEngine, clock: FakeClock) -> None:
    """Let the time of three leases pass, in steps that leave their holder the time to renew.

    And every relay the time to poll: a poll with the time of two steps ago would find leases that
    are longer than a lease is, and take them.
    """

    async def renewed() -> bool:
        leases, presence = await time_left(engine), await time_left(engine, "seen_until")
        assert presence is not None
        is_leased = leases is not None and leases - clock.shift() > 0.8 * LEASE
        return is_leased and presence > clock.shift()

    for _ in range(9):
        clock.advance(LEASE / 3)
        await eventually(renewed, "the leases are renewed, and every relay has polled")


async def crashes(engine: AsyncEngine) -> int:
    counted = select(outbox.tables.leases.c.crash_count)
    async with engine.connect() as connection:
        return sum(await connection.scalars(counted))


# -- leases while deliveries are on their way


async def test_what_outlasts_its_lease_while_the_relay_stops_is_delivered_once(
    engine: AsyncEngine, sessions: Sessions, clock: FakeClock
) -> None:
    leaving, other = Way("long"), Way()
    first = OutboxRelay(outbox, engine, leaving, clock=clock, lease=LEASE, grace=LONG)
    second = OutboxRelay(outbox, engine, other, clock=clock, lease=LEASE)
    await save(sessions, "long")
    async with running(first, leaving):
        await eventually(lambda: leaving.started)
        async with running(second, other):
            await eventually(lambda: second.idle)
            stop = asyncio.create_task(first.stop())
            await outlast_leases(engine, clock)
            assert not stop.done()
            leaving.door.set()
            await stop
            assert (leaving.arrived, other.started) == (["long"], [])
    assert await statuses(sessions) == {"long": "published"}
    assert await crashes(engine) == 0


async def test_what_outlasts_its_lease_during_an_outage_is_delivered_once(
    engine: AsyncEngine, sessions: Sessions, clock: FakeClock
) -> None:
    way, other = Way("long"), Way()
    first = OutboxRelay(outbox, engine, way, clock=clock, lease=LEASE)
    second = OutboxRelay(outbox, engine, other, clock=clock, lease=LEASE)
    await save(sessions, "long")
    async with running(first, way):
        await eventually(lambda: way.started)
        way.away = way.shut = OutageError("no line")
        await save(sessions, "bad")
        await eventually(lambda: first.health.status == HealthStatus.DEGRADED)
        async with running(second, other):
            await eventually(lambda: other.arrived == ["bad"])
            await outlast_leases(engine, clock)
            assert first.health.status == HealthStatus.DEGRADED
            way.door.set()
            await published(sessions)
    assert (way.arrived, other.started) == (["long"], ["bad"])
    assert await crashes(engine) == 0


async def test_handlers_that_use_up_the_pool_do_not_cost_the_relay_its_leases(
    engine: AsyncEngine, sessions: Sessions, clock: FakeClock, postgres_url: str
) -> None:
    small = create_async_engine(postgres_url, pool_size=1, max_overflow=0)
    way, other = Way("long"), Way()
    registry = EventRegistry()

    @registry.handles("long")
    class UsesAConnection:
        async def handle(self, event: UntypedEvent) -> None:
            async with small.connect() as connection:
                await connection.execute(text("SELECT 1"))
                way.started.append("long")
                await way.door.wait()

    handlers = HandlersPublisher(registry=registry, timeout=None)
    first = OutboxRelay(outbox, small, handlers, clock=clock, lease=LEASE)
    second = OutboxRelay(outbox, engine, other, clock=clock, lease=LEASE)
    await save(sessions, "long")
    async with running(first, way):
        await eventually(lambda: way.started)
        async with running(second, other):
            await outlast_leases(engine, clock)
            way.door.set()
            await published(sessions)
    await small.dispose()
    assert (way.started, other.started) == (["long"], [])
    assert await crashes(engine) == 0


async def test_delivering_once_waits_for_the_leases_of_a_worker_that_died(
    engine: AsyncEngine, sessions: Sessions
) -> None:
    lease = timedelta(seconds=1)
    way = Way()
    relay = OutboxRelay(outbox, engine, way, lease=lease)
    await save(sessions, "one", "two")
    await relay.store.open()
    dead = await relay.store.leases.poll("a worker that died", lease=lease)
    assert dead.leases
    assert (await relay.run_once()).delivered == 2
    assert sorted(way.arrived) == ["one", "two"]


# -- outages


async def test_others_leave_after_an_outage_though_a_long_delivery_is_under_way(
    engine: AsyncEngine, sessions: Sessions, clock: FakeClock
) -> None:
    way = Way("long")
    relay = OutboxRelay(outbox, engine, way, clock=clock)
    await save(sessions, "long")
    async with running(relay, way):
        await eventually(lambda: way.started)
        way.away = OutageError("no line")
        await save(sessions, "one", "two")
        await eventually(lambda: relay.health.status == HealthStatus.DEGRADED)
        way.away = None
        clock.advance(LONGEST_PAUSE)
        await eventually(lambda: sorted(way.arrived) == ["one", "two"])
        await eventually(lambda: relay.health.status == HealthStatus.OK)
        way.door.set()
        await published(sessions)


async def test_others_leave_after_an_outage_though_the_first_to_try_is_a_long_delivery(
    engine: AsyncEngine, sessions: Sessions, clock: FakeClock
) -> None:
    way = Way("long")
    way.away = OutageError("no line")
    relay = OutboxRelay(outbox, engine, way, clock=clock)
    await save(sessions, "long", "one", "two")
    async with running(relay, way):
        await eventually(lambda: relay.health.status == HealthStatus.DEGRADED)
        way.away = None
        way.started.clear()
        clock.advance(LONGEST_PAUSE)
        await eventually(lambda: way.started == ["long"])
        clock.advance(timedelta(seconds=5))
        await eventually(lambda: sorted(way.arrived) == ["one", "two"])
        way.door.set()
        await published(sessions)


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError("mq:5672"), RuntimeError("ACCESS_REFUSED mq:5672")]
)
async def test_whatever_opening_raises_after_an_outage_is_waited_out(
    engine: AsyncEngine, sessions: Sessions, clock: FakeClock, error: Exception
) -> None:
    way = Way()
    relay = OutboxRelay(outbox, engine, way, clock=clock)
    async with running(relay, way):
        await eventually(lambda: relay.idle)
        way.away, way.shut = OutageError("no line"), error
        await save(sessions, "one")
        for opened in (2, 3, 4):
            await eventually(lambda: relay.health.status == HealthStatus.DEGRADED)
            clock.advance(LONGEST_PAUSE)
            await eventually(lambda wanted=opened: way.opened >= wanted)  # type: ignore[misc]
        await eventually(lambda: "mq:5672" in str(relay.health.reason))
        assert "the publisher is unavailable" in str(relay.health.reason)
        assert way.started == ["one"]  # nothing is sent on a way that is not open
        way.away = way.shut = None
        clock.advance(LONGEST_PAUSE)
        await published(sessions)
        await eventually(lambda: relay.health.status == HealthStatus.OK)
    assert [each.retry_count for each in await records(sessions)] == [0]


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError("mq"), RuntimeError("mq"), OutageError("mq")]
)
async def test_a_relay_whose_way_out_is_away_at_the_start_waits_for_it(
    engine: AsyncEngine, sessions: Sessions, clock: FakeClock, error: Exception
) -> None:
    way = Way()
    way.shut = error
    relay = OutboxRelay(outbox, engine, way, clock=clock)
    await save(sessions, "one")
    async with running(relay, way):
        await eventually(lambda: relay.health.status == HealthStatus.DEGRADED)
        way.shut = None
        clock.advance(LONGEST_PAUSE)
        await published(sessions)


async def test_a_relay_that_is_stopped_while_its_publisher_opens_does_not_wait_for_it(
    engine: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    class Mute(Way):
        async def open(self) -> None:
            await super().open()
            await self.door.wait()

    way = Mute()
    async with OutboxRelay(outbox, engine, way).running() as relay:
        await eventually(lambda: way.opened)
        async with asyncio.timeout(OPEN_WITHIN / 2):
            await relay.stop()
    assert relay.health.status == HealthStatus.STOPPED
    assert "did not open" not in caplog.text


async def test_a_way_out_that_is_set_up_wrongly_ends_the_start(engine: AsyncEngine) -> None:
    way = Way()
    way.shut = ConfigurationError("there is no such exchange")
    relay = OutboxRelay(outbox, engine, way)
    with pytest.raises(ConfigurationError, match="no such exchange"):
        await asyncio.wait_for(relay.run(), PATIENCE)
    assert relay.health.status == HealthStatus.STOPPED


@pytest.mark.requirement("C17")
@pytest.mark.parametrize("error", [ConnectionLostError("reset"), ConnectionResetError("reset")])
async def test_a_way_out_that_opens_and_breaks_each_time_costs_no_attempt(
    engine: AsyncEngine, sessions: Sessions, clock: FakeClock, error: Exception
) -> None:
    way = Way()
    way.away = error
    relay = OutboxRelay(outbox, engine, way, clock=clock, retry=RetrySchedule.seconds(1))
    await save(sessions, *"abcde")
    async with running(relay, way):
        for _ in range(20):
            calls = len(way.started)
            clock.advance(LONGEST_PAUSE)
            await eventually(lambda before=calls: len(way.started) > before)  # type: ignore[misc]
        found = await records(sessions)
        assert {(each.status, each.retry_count) for each in found} == {("pending", 0)}
        way.away = None
        clock.advance(LONGEST_PAUSE)
        await published(sessions)
    assert sorted(way.arrived) == list("abcde")


class Wordless(Way):
    """Answers with something else than a list of outcomes, for a while."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer
        self.well = False

    async def publish(self, records: Sequence[ClaimedRecord]) -> Any:
        outcomes = await super().publish(records)
        return iter(outcomes) if self.well else self.answer


@pytest.mark.parametrize("answer", [None, True, [], "yes"])
async def test_a_publisher_that_gives_no_outcomes_has_delivered_nothing(
    engine: AsyncEngine, sessions: Sessions, clock: FakeClock, answer: Any
) -> None:
    way = Wordless(answer)
    relay = OutboxRelay(outbox, engine, way, clock=clock)
    await save(sessions, "one")
    async with running(relay, way):
        await eventually(lambda: relay.health.status == HealthStatus.DEGRADED)
        [record] = await records(sessions)
        assert (record.status, record.retry_count) == ("pending", 0)
        way.well = True
        clock.advance(LONGEST_PAUSE)
        await published(sessions)


class CountingClock(Clock):
    """Counts how often somebody waits, which the loop does once in a turn."""

    def __init__(self) -> None:
        self.waits = 0

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        self.waits += 1
        await super().wait(event, seconds)


class OpensSlowly(Way):
    """Opens at once the first time, and when it is told to from then on."""

    async def open(self) -> None:
        await super().open()
        if self.opened > 1:
            await self.door.wait()


async def test_the_loop_sleeps_while_the_publisher_is_being_opened(
    engine: AsyncEngine, sessions: Sessions
) -> None:
    way, clock = OpensSlowly(), CountingClock()
    way.away = OutageError("no line")
    relay = OutboxRelay(outbox, engine, way, clock=clock)
    await save(sessions, *"abcdefgh")
    async with running(relay, way):
        await eventually(lambda: way.opened == 2)
        before = clock.waits
        assert not await happens(lambda: clock.waits > before + 20, within=0.5)
        assert way.opened == 2
        way.away = None
        way.door.set()
        await published(sessions)
    assert sorted(way.arrived) == list("abcdefgh")


# -- the end


class FinishesItsCall(Way):
    """Confirms what it has sent, also when its call is cancelled."""

    async def take(self, record: ClaimedRecord) -> Outcome:
        try:
            return await super().take(record)
        except asyncio.CancelledError:
            self.arrived.append(record.event_type)
            return DELIVERED


async def test_nothing_is_sent_after_a_cancellation_that_a_delivery_survives(
    engine: AsyncEngine, sessions: Sessions
) -> None:
    way = FinishesItsCall("one", "two", "three")
    relay = OutboxRelay(outbox, engine, way)
    await save(sessions, *(happened(name, "k") for name in ("one", "two", "three")))
    run = asyncio.create_task(relay.run())
    await eventually(lambda: way.started)
    run.cancel()
    await asyncio.wait([run], timeout=PATIENCE)
    assert run.cancelled()
    assert way.started == way.arrived == ["one"]
    assert await statuses(sessions) == {"one": "published", "two": "pending", "three": "pending"}
    assert await time_left(engine) is None

    rest = Way()
    assert (await OutboxRelay(outbox, engine, rest).run_once()).delivered == 2
    assert rest.arrived == ["two", "three"]


async def test_a_delivery_that_heeds_no_cancellation_keeps_nobody_from_being_settled(
    engine: AsyncEngine, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "CANCEL_WITHIN", 0.2)
    way = Stubborn("stubborn")
    relay = OutboxRelay(outbox, engine, way)
    await save(sessions, "stubborn", "quick")
    rows = outbox.tables.records
    async with engine.connect() as connection:
        quick = select(rows).where(rows.c.event_type == "quick").with_for_update()
        await connection.execute(quick)  # so that it cannot be settled
        run = asyncio.create_task(relay.run())
        await eventually(lambda: sorted(way.started) == ["quick", "stubborn"])
        await eventually(lambda: way.arrived == ["quick"])
        run.cancel()
        for _ in range(50):  # for the cancellation to arrive everywhere
            await asyncio.sleep(0)
    await asyncio.wait([run], timeout=PATIENCE)
    assert way.arrived == ["quick"]
    assert await statuses(sessions) == {"stubborn": "pending", "quick": "published"}
    assert await time_left(engine) is None

    way.door.set()
    await eventually(lambda: way.arrived == ["quick", "stubborn"])
    assert run.cancelled()


async def test_what_ends_a_relay_comes_out_of_the_block_that_it_runs_for(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'empty.db'}")
    relay = OutboxRelay(outbox, engine, Way())
    with pytest.raises(SchemaError, match="no table `outbox`"):
        async with relay.running():
            await eventually(lambda: relay.health.status == HealthStatus.STOPPED)
    await engine.dispose()


# -- what the database is like


async def test_a_clean_up_that_fails_does_not_end_the_relay(
    engine: AsyncEngine,
    sessions: Sessions,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    way = Way()
    relay = OutboxRelay(outbox, engine, way, clock=clock)

    async def old_is_gone() -> bool:
        return "old" not in await statuses(sessions)

    await save(sessions, "old")
    await relay.run_once()
    clock.advance(timedelta(days=8))
    await execute(engine, "CREATE TABLE edges_audit (event uuid REFERENCES outbox (id))")
    try:
        await execute(engine, "INSERT INTO edges_audit SELECT id FROM outbox")
        async with running(relay, way):
            await eventually(lambda: "the clean-up has to wait" in caplog.text)
            await save(sessions, "new")
            await published(sessions)
            assert relay.health.status == HealthStatus.OK
            await execute(engine, "DROP TABLE edges_audit")
            clock.advance(timedelta(minutes=11))
            await eventually(old_is_gone)
    finally:
        await execute(engine, "DROP TABLE IF EXISTS edges_audit")
    assert way.arrived == ["old", "new"]


async def execute(engine: AsyncEngine, statement: str) -> None:
    async with engine.begin() as connection:
        await connection.execute(text(statement))


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
@pytest.mark.parametrize("table", ["out%box", "out:box", 'Out"Box', "out'box", "%(x)s", "a b\\:c"])
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
        assert (await relay.store.counts()).held == 1
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
    sessions = async_sessionmaker(immediate, expire_on_commit=False)
    publisher = RecordingPublisher()
    publisher.refuse("bad", permanent=True)
    relay = OutboxRelay(outbox, immediate, publisher, clock=clock)

    async def bad_has_failed() -> bool:
        return (await relay.store.counts()).failed == 1

    await save(sessions, happened("bad", "k"), happened("follower", "k"), "one")
    await relay.store.open()
    async with relay.running():
        await eventually(lambda: publisher.published("one"))
        await save(sessions, "two")
        await eventually(lambda: publisher.published("two"))
        await eventually(bad_has_failed)
        [bad] = [each for each in await records(sessions) if each.status == "failed"]
        assert await Operations(outbox, relay.engine).retry([bad.id]) == 1
        relay.wake()
        await published(sessions)
    names = [each.event_type for each in publisher.messages]
    assert sorted(names) == ["bad", "follower", "one", "two"]
    assert names.index("bad") < names.index("follower")
    clock.advance(timedelta(days=8))
    assert await relay.clean() == 4


class RefusesSome(Way):
    """Refuses every fifth delivery."""

    async def take(self, record: ClaimedRecord) -> Outcome:
        if len(self.started) % 5 == 4:
            self.started.append(record.event_type)
            return Refused("later")
        return await super().take(record)


async def test_a_relay_that_joins_gets_its_share_although_the_first_one_has_claimed_everything(
    sessions: Sessions, engine: AsyncEngine
) -> None:
    names = [str(number) for number in range(40)]
    ways = Way(*names), Way()  # the first one's deliveries do not end
    ways[0].max_in_flight = 1
    first, second = (OutboxRelay(outbox, engine, way, poll_interval=LONG) for way in ways)
    await save(sessions, *names)
    async with running(first, ways[0]):
        await eventually(lambda: len(ways[0].started) == 1)
        async with running(second, ways[1]):
            await eventually(lambda: len(ways[1].arrived) >= 10)
            assert len(ways[0].started) == 1


@pytest.mark.parametrize("level", ["SERIALIZABLE", "REPEATABLE READ"])
async def test_two_relays_work_on_engines_with_a_stricter_isolation(
    engine: AsyncEngine, sessions: Sessions, postgres_url: str, level: Any
) -> None:
    strict = create_async_engine(postgres_url, isolation_level=level)
    ways = RefusesSome(), RefusesSome()
    first, second = (
        OutboxRelay(
            outbox,
            strict,
            way,
            poll_interval=timedelta(seconds=0.2),
            batch_size=20,
            retry=RetrySchedule.seconds(0, 0.05, forever=True),
        )
        for way in ways
    )
    names = [f"{key}:{number}" for number in range(10) for key in range(20)]
    async with sessions.begin() as session:
        session.add_all(
            OutboxRecord(
                event_type=name,
                payload={},
                aggregate_type="note",
                aggregate_id=name.partition(":")[0],
                max_retries=None,
            )
            for name in names
        )
    async with running(first, ways[0]), running(second, ways[1]):
        await published(sessions)
        assert {first.health.status, second.health.status} == {HealthStatus.OK}
    await strict.dispose()
    assert sorted(ways[0].arrived + ways[1].arrived) == sorted(names)
    assert await crashes(engine) == 0


async def test_the_time_zone_of_a_connection_changes_nothing_about_when_records_leave(
    engine: AsyncEngine, sessions: Sessions, postgres_url: str, clock: FakeClock
) -> None:
    settings = {"timezone": "Asia/Kolkata"}
    far = create_async_engine(postgres_url, connect_args={"server_settings": settings})
    publisher = RecordingPublisher()
    publisher.refuse("refused")
    relay = OutboxRelay(outbox, far, publisher, clock=clock, retry=RetrySchedule.seconds(3600))
    later = datetime.now(UTC) + timedelta(hours=1)
    there = async_sessionmaker(far)
    await save(there, "refused", Delayed(happened("delayed"), until=later), "plain")

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


async def test_a_row_that_is_said_to_be_published_by_hand_is_not_delivered(
    engine: AsyncEngine, sessions: Sessions
) -> None:
    way = Way()
    relay = OutboxRelay(outbox, engine, way)
    await save(sessions, happened("done", "k"), happened("next", "k"))
    await execute(engine, "UPDATE outbox SET status = 'published' WHERE event_type = 'done'")
    assert (await relay.run_once()).delivered == 1
    assert way.started == ["next"]
    assert [each.ready for each in await records(sessions)] == [False, False]


# -- what is told


async def test_neither_the_row_nor_the_relays_log_has_the_values_of_a_handlers_statement(
    engine: AsyncEngine, sessions: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    registry = EventRegistry()

    @registry.handles("opened")
    class Saves:
        async def handle(self, event: UntypedEvent) -> None:
            values = {"email": "anna@example.org", "token": "s3cr3t"}
            async with engine.connect() as connection:
                await connection.execute(
                    text("INSERT INTO nowhere VALUES (:email, :token)"), values
                )

    handlers = HandlersPublisher(registry=registry)
    relay = OutboxRelay(outbox, engine, handlers, retry=RetrySchedule.seconds(60))
    await save(sessions, "opened")
    await relay.run_once()
    [record] = await records(sessions)
    ours = [each for each in caplog.records if each.name.startswith("postroom")]
    said = [each.getMessage() for each in ours if each.levelno >= logging.ERROR]
    assert len(said) == 1
    for told in (str(record.error_message), *said):
        assert "nowhere" in told  # it says what is wrong
        for secret in ("INSERT", "anna@example.org", "s3cr3t"):
            assert secret not in told
