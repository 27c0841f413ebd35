"""A database, a ledger and a broker of the test's own."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from tests.chaos.broker import Broker, private_broker
from tests.chaos.fleet import Fleet, fleet_of
from tests.chaos.ledger import Ledger
from tests.chaos.mailbox import Mailbox
from tests.chaos.worker import WorkerOptions
from tests.support.leftovers import keep_process
from tests.support.postgres import temporary_database
from tests.support.shop import outbox
from tests.support.waiting import FULL

collect_ignore = [] if FULL else ["test_broker_cluster.py"]
"""Three brokers take long to start. tests/integration/rabbitmq/test_hosts.py is the short one."""


@pytest.fixture
def database_url() -> Iterator[str]:
    """A database that nobody else knows of, for asyncpg."""
    with temporary_database("chaos") as url:
        yield url.set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """An engine on it, the outbox in place."""
    engine = create_async_engine(database_url)
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    yield engine
    await engine.dispose()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "ledger")
    yield ledger
    ledger.close()


@pytest.fixture
def fleet(database_url: str, ledger: Ledger, tmp_path: Path) -> Iterator[Fleet]:
    """Workers on that database, writing that ledger."""
    options = WorkerOptions(url=database_url, ledger=str(ledger.path))
    with fleet_of(options, tmp_path) as fleet:
        yield fleet


@pytest.fixture(scope="session")
def _broker() -> Iterator[Broker]:
    with private_broker() as broker:
        yield broker


@pytest.fixture
def broker(_broker: Broker) -> Iterator[Broker]:
    """A RabbitMQ to stop, kill and alarm; it is well at the beginning and at the end."""
    yield _broker
    if _broker.runs and _broker.alarmed:
        _broker.alarm(on=False)
    if not _broker.runs:
        _broker.start()
    keep_process(_broker.pid)


@pytest.fixture
async def mailbox(broker: Broker) -> AsyncIterator[Mailbox]:
    """A queue on it."""
    mailbox = Mailbox(broker.url)
    yield mailbox
    if not broker.runs:
        await asyncio.to_thread(broker.start)
    await mailbox.remove()


@pytest.fixture
async def distant_mailbox(rabbitmq_url: str) -> AsyncIterator[Mailbox]:
    """A queue on the RabbitMQ that all tests share."""
    mailbox = Mailbox(rabbitmq_url)
    yield mailbox
    await mailbox.remove()
