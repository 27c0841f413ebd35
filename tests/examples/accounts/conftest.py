"""A database and a server for all tests, which use accounts of their own."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.examples.accounts.database import Database
from tests.support.command import Commands
from tests.support.migrated import Template, migrated_template
from tests.support.server import Server, serve

FACTORY = "accounts.main:create_app"


@pytest.fixture(scope="session")
def template() -> Iterator[Template]:
    with migrated_template("accounts") as template:
        yield template


@pytest.fixture(scope="session")
def database_url(template: Template) -> Iterator[str]:
    with template.copy() as url:
        yield url


@pytest.fixture(scope="session")
def server(session_commands: Commands, database_url: str) -> Server:
    return serve(session_commands, FACTORY, DATABASE_URL=database_url)


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as client:
        yield client


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with Database(database_url) as database:
        yield database


@pytest.fixture
def own_database_url(template: Template) -> Iterator[str]:
    """A database whose server the test may kill."""
    with template.copy() as url:
        yield url


@pytest.fixture
def own_database(own_database_url: str) -> Iterator[Database]:
    with Database(own_database_url) as database:
        yield database
