"""`postroom doctor` and what stands in the way: servers that never answer, locks, PgBouncer."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy import URL, MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from postroom import MemoryPublisher, Outbox, OutboxRelay
from postroom.doctor import Finding, Level, Subject, examine
from postroom.publishers.rabbitmq import RabbitMQPublisher
from tests.support.doctor_checks import Checks
from tests.support.listening import serving
from tests.support.pgbouncer import pgbouncer_to
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.requirement("E6")

NO_NAMES = {
    "statement_cache_size": 0,
    "prepared_statement_cache_size": 0,
    "prepared_statement_name_func": lambda: "",
}


@pytest.fixture
async def silent_port() -> AsyncIterator[int]:
    """A port where somebody listens who never says a word."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(listen) as port:
        yield port


@pytest.mark.extended  # it is asked for 6 s
async def test_a_database_that_never_answers_is_a_problem(silent_port: int) -> None:
    engine = create_async_engine(f"postgresql+asyncpg://ann:s3cret@127.0.0.1:{silent_port}/shop")
    finding = await Checks(Outbox(MetaData()), engine, engine).problem("database connection")
    assert finding.text.startswith("cannot use the shop: ")
    assert "s3cret" not in finding.text
    await engine.dispose()


async def test_a_broker_that_never_answers_is_a_problem(checks: Checks, silent_port: int) -> None:
    url = f"amqp://ann:s3cret@127.0.0.1:{silent_port}/"
    publisher = RabbitMQPublisher(url, exchange="shop", connect_within=timedelta(seconds=0.2))
    [finding] = await checks.findings("publisher connection", publisher=publisher)
    assert finding.level == Level.PROBLEM
    assert f"127.0.0.1:{silent_port}/" in finding.text


@pytest.mark.extended  # five checks wait for the lock
async def test_tables_that_somebody_has_locked_are_a_note(
    checks: Checks, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = PATIENCE / 30
    monkeypatch.setattr("postroom.doctor.finding.TIME_LIMIT", limit)
    async with checks.admin.begin() as other:
        await other.exec_driver_sql("LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE")
        subject = Subject(
            outbox=checks.outbox,
            engine=checks.engine,
            place="the shop",
            transaction_limit=timedelta(),
        )
        found: dict[str, Finding] = {}
        async for result in examine(subject):  # once: each check of the table waits for the lock
            found[result.check] = result.findings[0]
            if result.check == "transactions":
                break
    assert found["dead rows"].level == Level.NOTE
    assert found["dead rows"].text.startswith("not checked: ")
    assert found["transactions"].level == Level.PROBLEM
    assert "LOCK TABLE outbox" in found["transactions"].text


async def test_a_relay_that_listens_behind_pgbouncer_is_a_problem(
    checks: Checks, doctor_database: URL
) -> None:
    with pgbouncer_to(doctor_database.render_as_string(hide_password=False)) as pooled:
        url = pooled.set(drivername="postgresql+asyncpg")
        engine = create_async_engine(url, connect_args=NO_NAMES)
        relay = OutboxRelay(checks.outbox, engine, MemoryPublisher())
        behind = Checks(checks.outbox, engine, checks.admin)
        finding = await behind.problem("settings", relay=relay)
        assert "PgBouncer delivers no notification" in finding.text
        polling = OutboxRelay(checks.outbox, engine, MemoryPublisher(), listen=None)
        assert await behind.is_fine("settings", relay=polling)
        await engine.dispose()
