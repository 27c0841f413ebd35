"""Servers of the family hub: each test has a database, a vhost and processes of its own."""

import json
from collections.abc import Iterator

import pytest

from tests.examples.family.database import Database
from tests.examples.migrated import Template, migrated_template
from tests.examples.server import Server, serve
from tests.support.command import Commands

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


@pytest.fixture
def database_url(template: Template) -> Iterator[str]:
    with template.copy() as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with Database(database_url) as database:
        yield database


def start_server(commands: Commands, database_url: str, rabbitmq_url: str) -> Server:
    """Start a server, which logs all that it can."""
    config = commands.write("logging.json", json.dumps(LOG_EVERYTHING))
    options = ("--log-config", str(config), "--log-level", "trace")
    urls = {"DATABASE_URL": database_url, "RABBITMQ_URL": rabbitmq_url}
    return serve(commands, "family.main:create_app", *options, **urls)
