"""A database of its own for each test, and the processes that use it."""

from collections.abc import Iterator

import pytest

from tests.examples.accounts.database import Database
from tests.examples.migrated import Template, migrated_template


@pytest.fixture(scope="session")
def template() -> Iterator[Template]:
    with migrated_template("accounts") as template:
        yield template


@pytest.fixture
def database_url(template: Template) -> Iterator[str]:
    with template.copy() as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with Database(database_url) as database:
        yield database
