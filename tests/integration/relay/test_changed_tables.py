"""The tables of an outbox change, or may not be used for a while, under relays that run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from datetime import timedelta

import pytest
from sqlalchemy import MetaData, event, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from postroom import (
    Health,
    HealthStatus,
    Outbox,
    OutboxRecord,
    OutboxRelay,
    RelayObserver,
    RetrySchedule,
    UntypedEvent,
)
from postroom.testing import RecordingPublisher
from postroom.wakeup import listener
from postroom.wakeup.notifier import CHANNEL
from tests.support.pgbouncer import pgbouncer_to
from tests.support.waiting import eventually

TABLE, AWAY = "changing", "changing_away"
CHANGES = 20
PREPARED = 8
"""Records that are delivered one by one before: psycopg prepares what it runs the sixth time."""
DRIVERS = [
    "asyncpg",
    pytest.param("psycopg", marks=pytest.mark.extended),
    pytest.param("pgbouncer", marks=pytest.mark.extended),
    pytest.param("asyncpg by SQLAlchemy", marks=pytest.mark.extended),
]
UNPREPARED = {
    "statement_cache_size": 0,
    "prepared_statement_cache_size": 0,
    "prepared_statement_name_func": lambda: "",
}


def event_of(event_type: str, number: int) -> UntypedEvent:
    key = f"{event_type} {number}"
    return UntypedEvent(event_type=event_type, aggregate_type="note", aggregate_id=key, payload={})


class Rig:
    """An outbox with a table of its own, and a relay that polls every 100 ms."""

    def __init__(self, owner: AsyncEngine, engine: AsyncEngine, channel: str | None = None) -> None:
        self.owner = owner
        record = type("ChangingRecord", (OutboxRecord,), {})
        self.outbox = Outbox(MetaData(), table=TABLE, record=record)
        self.publisher = RecordingPublisher()
        self.relay = OutboxRelay(
            self.outbox,
            engine,
            self.publisher,
            poll_interval=timedelta(milliseconds=100),
            lease=timedelta(seconds=4),
            retry=RetrySchedule.seconds(3600, forever=True),
            batch_size=10,
            listen=channel,
        )

    @property
    def health(self) -> Health:
        return self.relay.health

    async def save(self, *statements: str, event_type: str = "noted", count: int = 1) -> None:
        """Save records, and run statements in the same transaction."""
        async with AsyncSession(self.owner) as session, session.begin():
            events = [event_of(event_type, number) for number in range(count)]
            await self.outbox.dispatcher(session).dispatch(events)
            await session.flush()
            for each in statements:
                await session.execute(text(each))

    async def run(self, *statements: str) -> None:
        async with self.owner.begin() as connection:
            for each in statements:
                await connection.execute(text(each))

    async def delivered(self, count: int) -> None:
        await eventually(lambda: len(self.publisher.messages) >= count, f"{count} are delivered")

    async def warm_up(self) -> None:
        """Deliver records one by one, so that every statement is prepared.

        A key is blocked, so that claims are transactions of several statements, too.
        """
        self.publisher.refuse("refused")
        await self.save(event_type="refused")

        async def is_blocked() -> bool:
            async with self.owner.connect() as connection:
                found = await connection.execute(select(self.outbox.tables.blocked_keys))
                return len(found.all()) == 1

        await eventually(is_blocked)
        for count in range(PREPARED):
            await self.save()
            await self.delivered(count + 1)

    async def listeners(self) -> set[int]:
        """Return the server processes of the connections that listen."""
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        async with self.owner.connect() as connection:
            return set(await connection.scalars(text(f"{query} AND query LIKE 'LISTEN%'")))

    def is_ok(self) -> bool:
        return self.health.status is HealthStatus.OK

    def is_idle(self) -> bool:
        return self.relay.idle

    def is_degraded(self) -> bool:
        return self.health.status is HealthStatus.DEGRADED


class Beats(RelayObserver):
    """Counts the heartbeats that have succeeded."""

    def __init__(self) -> None:
        self.count = 0

    def statement_run(self, name: str, seconds: float) -> None:
        self.count += name == "leases.renew"

    async def more(self, count: int) -> None:
        end = self.count + count
        await eventually(lambda: self.count >= end, f"{count} heartbeats")


@pytest.fixture(params=DRIVERS)
async def rig(request: pytest.FixtureRequest, engine: AsyncEngine) -> AsyncIterator[Rig]:
    url = engine.url.render_as_string(hide_password=False)
    with pgbouncer_to(url) if request.param == "pgbouncer" else nullcontext(engine.url) as place:
        options = {"connect_args": UNPREPARED} if request.param == "pgbouncer" else {}
        driver = "psycopg" if request.param == "psycopg" else "asyncpg"
        own = create_async_engine(place.set(drivername=f"postgresql+{driver}"), **options)
        if request.param == "asyncpg by SQLAlchemy":
            event.listen(own.sync_engine, "begin", lambda _: None)
        rig = Rig(engine, own, None if request.param == "pgbouncer" else CHANNEL)
        async with engine.begin() as connection:
            await connection.run_sync(rig.outbox.create_tables)
        yield rig
        async with engine.begin() as connection:
            await connection.execute(text("DROP FUNCTION IF EXISTS disk_full CASCADE"))
            await connection.execute(text(f"DROP TABLE IF EXISTS {AWAY} CASCADE"))
            await connection.run_sync(rig.outbox.metadata.drop_all)
        await own.dispose()


async def test_a_column_that_gets_another_type_ends_no_relay_and_costs_no_repeat(rig: Rig) -> None:
    async def write() -> None:
        while True:
            await rig.save(count=20)

    async with rig.relay.running():
        await rig.warm_up()
        writer = asyncio.create_task(write())
        for length in range(300, 300 + CHANGES):
            await rig.run(f"ALTER TABLE {TABLE} ALTER COLUMN event_type TYPE varchar({length})")
            await rig.run(f"ALTER TABLE {TABLE}_leases ALTER COLUMN worker TYPE varchar({length})")
            await rig.delivered(len(rig.publisher.messages) + 50)
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)
        await eventually(rig.is_idle)
        await eventually(rig.is_ok)
    assert len({each.id for each in rig.publisher.messages}) == len(rig.publisher.messages)


@pytest.mark.parametrize(
    ("take_away", "give_back", "reason"),
    [
        (
            f"REVOKE ALL ON {TABLE} FROM CURRENT_USER",
            f"GRANT ALL ON {TABLE} TO CURRENT_USER",
            f"permission denied for table {TABLE}",
        ),
        (
            f"REVOKE UPDATE ON {TABLE} FROM CURRENT_USER",
            f"GRANT UPDATE ON {TABLE} TO CURRENT_USER",
            f"permission denied for table {TABLE}",
        ),
        (
            f"REVOKE ALL ON {TABLE}_leases FROM CURRENT_USER",
            f"GRANT ALL ON {TABLE}_leases TO CURRENT_USER",
            f"permission denied for table {TABLE}_leases",
        ),
        (
            f"ALTER TABLE {TABLE} RENAME TO {AWAY}",
            f"ALTER TABLE {AWAY} RENAME TO {TABLE}",
            f'relation "{TABLE}" does not exist',
        ),
        (
            f"ALTER TABLE {TABLE} RENAME COLUMN event_type TO kind",
            f"ALTER TABLE {TABLE} RENAME COLUMN kind TO event_type",
            "event_type does not exist",
        ),
    ],
    ids=["no privilege", "no update", "no leases", "no table", "no column"],
)
async def test_what_is_missing_is_waited_for_and_named(
    rig: Rig, take_away: str, give_back: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with rig.relay.running():
        await rig.warm_up()
        await rig.save(take_away)
        await eventually(lambda: reason in str(rig.health.reason))
        assert rig.is_degraded()
        await rig.run(give_back)
        await eventually(rig.is_ok)
        await rig.delivered(PREPARED + 1)
        assert reason in caplog.text


FULL = """CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'could not extend file: no space left' USING ERRCODE = '53100'; END $$"""


async def test_a_database_that_takes_no_settlement_is_available_again_when_it_takes_one(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    beats = Beats()
    rig.relay.observe(beats)
    async with rig.relay.running():
        await rig.warm_up()
        refuse = f"CREATE TRIGGER full_disk BEFORE UPDATE ON {TABLE} EXECUTE FUNCTION disk_full()"
        await rig.save(FULL, refuse)
        await eventually(rig.is_degraded)
        await beats.more(4)  # leases are renewed, which writes, too
        assert rig.is_degraded()
        assert "no space left" in str(rig.health.reason)
        assert "available again" not in caplog.text
        await rig.run("DROP FUNCTION disk_full CASCADE")
        await eventually(rig.is_ok)
    assert caplog.text.count("available again") == 1
    assert len({each.id for each in rig.publisher.messages}) == len(rig.publisher.messages)


@pytest.mark.parametrize("rig", DRIVERS[:2], indirect=True)
async def test_after_an_outage_the_relay_listens_by_another_connection(rig: Rig) -> None:
    async def listens_anew() -> bool:
        return bool(now := await rig.listeners()) and now.isdisjoint(before)

    async with rig.relay.running():
        await rig.warm_up()
        await eventually(rig.listeners)
        before = await rig.listeners()
        await rig.save(f"REVOKE UPDATE ON {TABLE} FROM CURRENT_USER")
        await eventually(rig.is_degraded)
        await rig.run(f"GRANT UPDATE ON {TABLE} TO CURRENT_USER")
        await eventually(listens_anew)


@pytest.mark.parametrize("rig", DRIVERS[:2], indirect=True)
async def test_a_listener_that_waits_to_connect_does_so_when_an_outage_is_over(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "FIRST_PAUSE", 3600)
    monkeypatch.setattr(listener, "LONGEST_PAUSE", 3600)
    async with rig.relay.running():
        await rig.warm_up()
        await eventually(rig.listeners)
        [pid] = await rig.listeners()
        await rig.run(f"SELECT pg_terminate_backend({pid})")
        await eventually(lambda: "cannot listen for commits" in caplog.text)
        await rig.save(f"REVOKE UPDATE ON {TABLE} FROM CURRENT_USER")
        await eventually(rig.is_degraded)
        await rig.run(f"GRANT UPDATE ON {TABLE} TO CURRENT_USER")
        await eventually(rig.listeners)


READ_ONLY = text("""DO $$ BEGIN
    RAISE EXCEPTION 'cannot execute UPDATE' USING ERRCODE = 'read_only_sql_transaction'; END $$""")


@pytest.mark.parametrize("rig", [*DRIVERS[:2], DRIVERS[3]], indirect=True)
async def test_a_connection_to_a_server_that_became_read_only_is_not_used_again(rig: Rig) -> None:
    database = rig.relay.store.database
    pids: list[int] = []
    for statement in (READ_ONLY, text("SELECT 1")):
        with suppress(Exception):
            async with database.transaction() as run:
                pids += [row.pid for row in await run(text("SELECT pg_backend_pid() AS pid"))]
                await run(statement)
    assert len(set(pids)) == 2


async def test_a_relay_gives_up_on_a_lock_before_postgresql_looks_for_a_deadlock(rig: Rig) -> None:
    """So that a migration which locks two tables is not the victim."""
    column = "CAST(extract(epoch FROM CAST(current_setting('{}') AS interval)) * 1000 AS integer)"
    values = ", ".join(column.format(name) for name in ("lock_timeout", "deadlock_timeout"))
    async with rig.relay.store.database.transaction() as run:
        [(ours, theirs)] = await run(text(f"SELECT {values}"))
    assert 0 < ours < theirs


@pytest.mark.parametrize(
    ("table", "mode"),
    [
        (TABLE, "ACCESS EXCLUSIVE"),
        (TABLE, "SHARE"),  # of CREATE INDEX: only settlements wait
        (f"{TABLE}_pauses", "ACCESS EXCLUSIVE"),
    ],
)
async def test_a_lock_that_keeps_deliveries_waiting_is_named_until_it_is_gone(
    rig: Rig, table: str, mode: str
) -> None:
    beats = Beats()
    rig.relay.observe(beats)
    async with rig.relay.running():
        await rig.warm_up()
        rig.publisher.outage = "away"
        await rig.save()
        async with rig.owner.connect() as connection:
            await connection.execute(text(f"LOCK TABLE {table} IN {mode} MODE"))
            pid = await connection.scalar(text("SELECT pg_backend_pid()"))
            rig.publisher.outage = None
            expected = f"the table {table} is locked by pid {pid}"
            await eventually(lambda: expected in str(rig.health.reason))
            await beats.more(2)
            assert rig.is_degraded()
            assert expected in str(rig.health.reason)
            assert " since " in str(rig.health.reason)
            await connection.rollback()
        await eventually(rig.is_ok)
        await rig.delivered(PREPARED + 1)
    assert len({each.id for each in rig.publisher.messages}) == len(rig.publisher.messages)
