"""The servers that a page is about, under the names that the docs give them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import temporary_database


@pytest.fixture
def database_url() -> Iterator[str]:
    """An empty database of the page's own."""
    with temporary_database("docs") as url:
        yield url.set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)


@pytest.fixture
def environment(page: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """What the page's snippets find in the environment, as far as they look."""
    fixtures = {"DATABASE_URL": "database_url", "RABBITMQ_URL": "rabbitmq_url"}
    text = page.read_text()
    return {
        variable: request.getfixturevalue(fixture)
        for variable, fixture in fixtures.items()
        if f'environ["{variable}"]' in text
    }
