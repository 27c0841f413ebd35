"""A database, a server and a worker for all tests, which use accounts of their own."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from uuid import uuid4

import httpx
import pytest

from examples.messaging.tests.account import Account
from examples.messaging.tests.arrivals import Arrivals
from examples.messaging.tests.database import Database, copy_of
from tests.support.broker import Broker
from tests.support.command import PATIENCE, ROOT, Command, Commands
from tests.support.migrated import migrated_database
from tests.support.rabbitmq import temporary_vhost
from tests.support.server import Server, serve
from tests.support.services import service_url

FACTORY = "examples.messaging.main:create_app"
RELAY = "examples.messaging.worker:make_relay"
EXCHANGE = "messaging"


@pytest.fixture(scope="session")
def template_url() -> Iterator[str]:
    """A database that is only ever copied: to migrate each would take longer."""
    with migrated_database("messaging") as url:
        yield url


@pytest.fixture(scope="session")
def database_url(template_url: str) -> Iterator[str]:
    with copy_of(template_url) as url:
        yield url


@pytest.fixture(scope="session")
def rabbitmq_url() -> Iterator[str]:
    """A vhost in which nobody else declares what the application declares."""
    name = f"postroom_test_messaging_{uuid4().hex[:12]}"
    with temporary_vhost(service_url("POSTROOM_TEST_RABBITMQ_URL"), name) as url:
        yield url


@pytest.fixture(scope="session")
def server(session_commands: Commands, database_url: str, rabbitmq_url: str) -> Server:
    urls = {"DATABASE_URL": database_url, "RABBITMQ_URL": rabbitmq_url}
    return serve(session_commands, FACTORY, **urls)


@pytest.fixture(scope="session")
def _worker(session_commands: Commands, database_url: str, rabbitmq_url: str) -> Command:
    return start_worker(session_commands, database_url, rabbitmq_url)


@pytest.fixture
async def worker(_worker: Command) -> Command:
    """A worker that delivers to this session's vhost; it polls too rarely to be of any use."""
    await _worker.says("delivers from table `outbox_events`")
    return _worker


@pytest.fixture
async def account(server: Server) -> AsyncIterator[Account]:
    """A new account at the server that all tests share."""
    async with account_at(server) as account:
        yield account


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with Database(database_url) as database:
        yield database


@pytest.fixture
def own_database_url(template_url: str) -> Iterator[str]:
    """A database whose server the test may stop."""
    with copy_of(template_url) as url:
        yield url


@pytest.fixture
def own_database(own_database_url: str) -> Iterator[Database]:
    with Database(own_database_url) as database:
        yield database


@pytest.fixture
def arrivals(broker: Broker, worker: Command) -> Arrivals:
    """Whatever the worker delivers from now on."""
    return Arrivals(broker, broker.queue(broker.name("all"), "#", exchange=EXCHANGE))


@asynccontextmanager
async def account_at(server: Server) -> AsyncIterator[Account]:
    """Have a new account at a server."""
    async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE) as client:
        yield Account(client)


def start_worker(
    commands: Commands, database_url: str, rabbitmq_url: str, **environment: str
) -> Command:
    """Start a worker; unless it is told otherwise, only a wake-up has it look for records."""
    urls = {"DATABASE_URL": database_url, "RABBITMQ_URL": rabbitmq_url, "PYTHONPATH": str(ROOT)}
    return commands("worker", RELAY, **{"OUTBOX_POLL_INTERVAL": "600", **urls, **environment})
