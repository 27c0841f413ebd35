"""A server for most tests; databases for those that start processes of their own."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from examples.messaging.tests.account import Account
from tests.examples.applications import start
from tests.examples.messaging.database import Database
from tests.examples.migrated import Template, migrated_template
from tests.examples.server import Server
from tests.support.command import PYTHONPATH, Command, Commands, commands_in

FACTORY = "messaging.main:create_app"
RELAY = "messaging.worker:make_relay"


@pytest.fixture(scope="session")
def template() -> Iterator[Template]:
    with migrated_template("messaging") as template:
        yield template


@pytest.fixture(scope="session")
def shared_database_url(template: Template) -> Iterator[str]:
    """The database of the server that tests share, with accounts of their own."""
    with template.copy() as url:
        yield url


@pytest.fixture(scope="session")
def server(shared_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with commands_in(tmp_path_factory.mktemp("server")) as commands:
        yield start(commands, "messaging", shared_database_url)


@pytest.fixture
async def account(server: Server) -> AsyncIterator[Account]:
    async with account_at(server) as account:
        yield account


@pytest.fixture
def shared_database(shared_database_url: str) -> Iterator[Database]:
    with Database(shared_database_url) as database:
        yield database


@pytest.fixture
def database_url(template: Template) -> Iterator[str]:
    with template.copy() as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with Database(database_url) as database:
        yield database


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
    return commands("worker", RELAY, **{"OUTBOX_POLL_INTERVAL": "600", **urls, **environment})
