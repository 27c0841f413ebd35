"""A database, a server and a worker for all tests, which use accounts of their own."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from tests.examples.messaging.account import Account
from tests.examples.messaging.arrivals import Arrivals
from tests.examples.messaging.database import Database
from tests.support.broker import Broker
from tests.support.command import PYTHONPATH, Command, Commands
from tests.support.migrated import Template, migrated_template
from tests.support.server import Server, serve

FACTORY = "messaging.main:create_app"
RELAY = "messaging.worker:make_relay"
EXCHANGE = "messaging"


@pytest.fixture(scope="session")
def template() -> Iterator[Template]:
    with migrated_template("messaging") as template:
        yield template


@pytest.fixture(scope="session")
def database_url(template: Template) -> Iterator[str]:
    with template.copy() as url:
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
def own_database_url(template: Template) -> Iterator[str]:
    """A database whose server the test may stop."""
    with template.copy() as url:
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
    async with server.client() as client:
        yield Account(client)


def start_worker(
    commands: Commands, database_url: str, rabbitmq_url: str, **environment: str
) -> Command:
    """Start a worker; without other settings, only a wake-up has it look for records."""
    urls = {"DATABASE_URL": database_url, "RABBITMQ_URL": rabbitmq_url, "PYTHONPATH": PYTHONPATH}
    defaults = {"OUTBOX_POLL_INTERVAL": "600", "RABBITMQ_AUDIT_QUEUE": "true"}
    return commands("worker", RELAY, **{**defaults, **urls, **environment})
