"""One server for most tests, with a database and users of their own."""

import json
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
import pytest

from tests.examples.family.database import Database
from tests.examples.family.mailbox import Mailbox, mailbox
from tests.examples.family.users import Someone
from tests.support.broker import Broker
from tests.support.command import Commands
from tests.support.migrated import Template, migrated_template
from tests.support.server import Server, serve

APP = "family.main:create_app"

LOG_EVERYTHING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "root": {"level": "DEBUG", "handlers": ["stderr"]},
    "loggers": {"sqlalchemy.engine": {"level": "INFO"}},
}


@pytest.fixture(scope="session")
def template() -> Iterator[Template]:
    with migrated_template("family") as template:
        yield template


@pytest.fixture(scope="session")
def database_url(template: Template) -> Iterator[str]:
    with template.copy() as url:
        yield url


@pytest.fixture(scope="session")
def server(session_commands: Commands, database_url: str, rabbitmq_url: str) -> Server:
    """The application, logging all that it can."""
    config = session_commands.write("logging.json", json.dumps(LOG_EVERYTHING))
    options = ("--log-config", str(config), "--log-level", "trace")
    return serve(
        session_commands, APP, *options, DATABASE_URL=database_url, RABBITMQ_URL=rabbitmq_url
    )


@pytest.fixture
async def http(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as client:
        yield client


@pytest.fixture
def someone(http: httpx.AsyncClient) -> Callable[[], Someone]:
    """Make users, each one new."""
    return lambda: Someone(http)


@pytest.fixture
def ann(http: httpx.AsyncClient) -> Someone:
    return Someone(http)


@pytest.fixture
async def family(ann: Someone) -> str:
    """Ann's."""
    return await ann.create_family()


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


@pytest.fixture
async def mail(server: Server, broker: Broker) -> Mailbox:
    return await mailbox(broker)


@pytest.fixture
def own_database_url(template: Template) -> Iterator[str]:
    """A database for a test that starts a server of its own."""
    with template.copy() as url:
        yield url


@pytest.fixture
def own_database(own_database_url: str) -> Iterator[Database]:
    database = Database(own_database_url)
    yield database
    database.close()
