"""PgBouncer between the relay and PostgreSQL, pooling transactions: what works, and what is said.

The pool is small, and its connections are used in turn: a session's state that is relied on is
missed soon.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import URL, NullPool, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine

from postroom import (
    ClaimedRecord,
    ConfigurationError,
    Delivered,
    Health,
    HealthStatus,
    OutboxRecord,
    OutboxRelay,
    Outcome,
    Refused,
    RetrySchedule,
    Status,
)
from postroom.operations import Operations
from tests.chaos.ledger import Ledger, out_of_order, repeats
from tests.chaos.outbox import has_status, records_of_keys, rows, running, save
from tests.chaos.publisher import LedgerPublisher, Treatment, deliver
from tests.support.command import ROOT, Commands, commands_in
from tests.support.pgbouncer import POOL_SIZE, pgbouncer_to
from tests.support.shop import Account, Base, outbox
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.extended

WORKER = """
import os
from sqlalchemy.ext.asyncio import create_async_engine
from postroom import MemoryPublisher, OutboxRelay
from tests.support.shop import outbox

relay = OutboxRelay(
    outbox, create_async_engine(os.environ["SHOP"]), MemoryPublisher(), listen=None
)
"""
NO_CACHE = {"statement_cache_size": 0, "prepared_statement_cache_size": 0}
SUITABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "asyncpg": ("asyncpg", {**NO_CACHE, "prepared_statement_name_func": lambda: ""}),
    "asyncpg with unique names": (
        "asyncpg",
        {**NO_CACHE, "prepared_statement_name_func": lambda: f"__asyncpg_{uuid4()}__"},
    ),
    "psycopg": ("psycopg", {"prepare_threshold": None}),
}
"""Drivers, and what they need behind PgBouncer. Unique names work, too, but statements pile up."""
CHANGED = """
    SELECT name, setting FROM pg_settings WHERE source = 'session' AND setting <> reset_val
"""


@pytest.fixture
async def tables(engine: AsyncEngine) -> AsyncEngine:
    """PostgreSQL itself, with the shop's tables."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    return engine


@pytest.fixture
def pooled(tables: AsyncEngine, database_url: str) -> Iterator[URL]:
    with pgbouncer_to(database_url) as url:
        yield url


@pytest.fixture(params=SUITABLE)
async def through(request: pytest.FixtureRequest, pooled: URL) -> AsyncIterator[AsyncEngine]:
    """An engine as PgBouncer needs it."""
    engine = suitable(pooled, request.param)
    yield engine
    await engine.dispose()


def suitable(pooled: URL, name: str) -> AsyncEngine:
    driver, arguments = SUITABLE[name]
    url = pooled.set(drivername=f"postgresql+{driver}")
    return create_async_engine(url, poolclass=NullPool, connect_args=arguments)


def relay_on(
    engine: AsyncEngine, ledger: Ledger, treat: Treatment = deliver, **options: Any
) -> OutboxRelay:
    chosen: dict[str, Any] = {
        "listen": None,
        "poll_interval": timedelta(seconds=0.2),
        "retry": RetrySchedule.seconds(0.1, forever=True),
        **options,
    }
    return OutboxRelay(outbox, engine, LedgerPublisher(ledger, treat=treat), **chosen)


async def ask_all(pooled: URL, query: str) -> list[list[Any]]:
    """Ask each of PgBouncer's connections, as an application would; give what each answers."""
    engine = suitable(pooled, "psycopg")
    async with AsyncExitStack() as stack:
        transactions = [await stack.enter_async_context(engine.begin()) for _ in range(POOL_SIZE)]
        pids = {await each.scalar(text("SELECT pg_backend_pid()")) for each in transactions}
        assert len(pids) == POOL_SIZE
        return [[*await each.execute(text(query))] for each in transactions]


async def all_published(engine: AsyncEngine) -> bool:
    return has_status(await rows(engine), Status.PUBLISHED)


# -- what works


async def write_accounts(engine: AsyncEngine, count: int) -> None:
    """Change accounts as an application does: several events each, captured with the change."""
    sessions = async_sessionmaker(engine, expire_on_commit=False)
    outbox.capture(sessions)
    for number in range(count):
        account = Account.open(f"account {number}")
        async with sessions() as session, session.begin():
            session.add(account)
        for name in ("Ann", "Bob"):
            async with sessions() as session, session.begin():
                session.add(account)
                account.rename(name)


async def test_two_relays_deliver_what_an_application_writes_meanwhile_in_order(
    through: AsyncEngine, tables: AsyncEngine, ledger: Ledger
) -> None:
    async def refuse_at_first(record: ClaimedRecord) -> Outcome:
        unlucky = record.position % 5 == 0 and record.retry_count < 2
        return Refused("not yet") if unlucky else Delivered()

    relays = [relay_on(through, ledger, refuse_at_first) for _ in range(2)]
    async with running(relays[0]), running(relays[1]):
        await asyncio.gather(*[write_accounts(through, 3) for _ in range(4)])
        await eventually(lambda: all_published(tables), "everything is delivered")
        await asyncio.gather(*[relay.stop() for relay in relays])

    assert len(ledger.records()) == 4 * 3 * 3
    assert out_of_order(ledger.delivered()) == []
    assert repeats(ledger.delivered()) == []
    assert max(row.retry_count for row in await rows(tables)) == 2


async def ids_of_failed(engine: AsyncEngine) -> list[UUID]:
    table = outbox.tables.records
    async with engine.connect() as connection:
        failed = select(table.c.id).where(table.c.status == Status.FAILED)
        return list(await connection.scalars(failed.order_by(table.c.position)))


async def test_failed_records_are_retried_and_discarded_and_old_ones_cleaned_up(
    through: AsyncEngine, tables: AsyncEngine, ledger: Ledger
) -> None:
    bad = {"0"}

    async def treat(record: ClaimedRecord) -> Outcome:
        first = str(record.payload["number"]) in bad
        return Refused("never", permanent=True) if first else Delivered()

    await save(through, records_of_keys(4, 3))
    relay = relay_on(through, ledger, treat)
    async with running(relay):
        await eventually(lambda: failed_are(tables, 4), "the first of each key fails")
        assert ledger.records() == set()
        discarded, *retried = await ids_of_failed(tables)
        assert await Operations(outbox, relay.engine).discard([discarded]) == 1
        bad.clear()
        assert await Operations(outbox, relay.engine).retry(retried) == 3
        await eventually(lambda: len(ledger.records()) == 11, "the rest is delivered")
        await eventually(lambda: all_published(tables))
        await relay.stop()

    assert out_of_order(ledger.delivered()) == []
    assert (
        await cleaned(relay_on(through, ledger, retention=timedelta(microseconds=1)), tables) == 11
    )


async def cleaned(relay: OutboxRelay, engine: AsyncEngine) -> int:
    """Clean up until nothing is left; give how many records that deleted.

    It deletes none while the server still ends the clean-up of the relay that has stopped, which
    keeps records for days, and so has deleted none either.
    """
    deleted = 0

    async def nothing_is_left() -> bool:
        nonlocal deleted
        deleted += await relay.clean()
        return await rows(engine) == []

    await eventually(nothing_is_left, "old records are deleted")
    return deleted


async def failed_are(engine: AsyncEngine, count: int) -> bool:
    return len(await ids_of_failed(engine)) == count


async def test_the_applications_connections_are_left_with_their_own_settings(
    through: AsyncEngine, pooled: URL, tables: AsyncEngine, ledger: Ledger
) -> None:
    await save(tables, records_of_keys(10, 10))
    relay = relay_on(through, ledger)
    async with running(relay):
        await eventually(lambda: all_published(tables), "everything is delivered")
        assert await ask_all(pooled, CHANGED) == [[]] * POOL_SIZE
        await relay.stop()
    assert await ask_all(pooled, CHANGED) == [[]] * POOL_SIZE


@pytest.mark.parametrize("through", ["asyncpg", "psycopg"], indirect=True)
async def test_no_prepared_statement_is_left_with_a_connection(
    through: AsyncEngine, pooled: URL, tables: AsyncEngine, ledger: Ledger
) -> None:
    await save(tables, records_of_keys(10, 10))
    await relay_on(through, ledger).run_once()
    assert await ask_all(pooled, "SELECT name FROM pg_prepared_statements") == [[]] * POOL_SIZE


# -- what does not


@pytest.fixture
def postroom(tmp_path: Any) -> Iterator[Commands]:
    with commands_in(tmp_path) as commands:
        yield commands


def assert_names_the_remedy(line: str) -> None:
    assert "PgBouncer" in line
    assert "statement_cache_size" in line
    assert "\n" not in line


async def test_a_prepared_statement_that_another_worker_has_made_ends_a_worker_with_one_line(
    tables: AsyncEngine, database_url: str, postroom: Commands
) -> None:
    postroom.write("app.py", WORKER)
    codes = []
    with pgbouncer_to(database_url, pool_size=1) as url:
        address = url.render_as_string(hide_password=False)
        # The first one's statements stay with the only connection; the second one's have the same
        # names.
        for _ in range(2):
            worker = postroom("worker", "app:relay", "--once", SHOP=address, PYTHONPATH=str(ROOT))
            codes.append(await worker.code())

    assert codes[-1] not in (0, 1), worker.err
    assert_names_the_remedy(worker.err.rstrip("\n"))


async def test_a_prepared_statement_of_another_connection_ends_the_relay_with_the_remedy(
    pooled: URL, tables: AsyncEngine, ledger: Ledger
) -> None:
    await save(tables, records_of_keys(3, 3))
    wrong = create_async_engine(pooled.set(drivername="postgresql+asyncpg"))
    await ask_all(pooled, "SELECT 1")  # from here on, all of the pool's connections are used
    relay = relay_on(wrong, ledger)
    with pytest.raises(ConfigurationError) as caught:
        async with asyncio.timeout(PATIENCE):
            await relay.run()
    await wrong.dispose()
    assert_names_the_remedy(str(caught.value))
    assert relay.health == Health(status=HealthStatus.STOPPED, reason=str(caught.value))


# -- LISTEN


async def test_a_relay_that_listens_in_vain_says_so_and_polls(
    through: AsyncEngine, tables: AsyncEngine, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    relay = relay_on(through, ledger, listen="outbox_channel")
    async with running(relay):
        await eventually(lambda: warnings_of(caplog), "it says so")
        records: list[OutboxRecord] = records_of_keys(3, 3)
        await save(tables, records)
        await eventually(lambda: all_published(tables), "everything is delivered")
        assert relay.health.status is HealthStatus.OK
        await relay.stop()

    [line] = warnings_of(caplog)
    assert "PgBouncer" in line
    assert "listen=None" in line
    assert len(ledger.records()) == len(records)
    assert out_of_order(ledger.delivered()) == []


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        each.getMessage()
        for each in caplog.records
        if each.name.startswith("postroom") and each.levelno >= logging.WARNING
    ]
