"""The migrations of each application go up, down and up again, and make what it expects."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.support.migrated import alembic, empty_database

pytestmark = pytest.mark.extended
Target = tuple[str, Callable[[], set[str]]]

POSTGRESQL_NAMES = """
    SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema'
"""
SQLITE_NAMES = "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
LEFT = {"alembic_version", "alembic_version_pkc"}


@pytest.fixture
def postgresql() -> Iterator[Target]:
    with empty_database("example") as url:

        def names() -> set[str]:
            with psycopg.connect(url.replace("+asyncpg", "")) as connection:
                return {name for [name] in connection.execute(POSTGRESQL_NAMES)}

        yield url, names


@pytest.fixture
def sqlite(tmp_path: Path) -> Target:
    file = tmp_path / "example.db"

    def names() -> set[str]:
        with closing(sqlite3.connect(file)) as connection:
            return {name for [name] in connection.execute(SQLITE_NAMES)}

    return f"sqlite+aiosqlite:///{file}", names


@pytest.mark.requirement("C3")
@pytest.mark.requirement("D10")
@pytest.mark.parametrize(
    ("application", "database"),
    [
        ("accounts", "postgresql"),
        ("accounts", "sqlite"),
        ("family", "postgresql"),
        ("messaging", "postgresql"),
        ("messaging", "sqlite"),
    ],
)
def test_they_go_up_and_down_and_up_again(
    application: str, database: str, request: pytest.FixtureRequest
) -> None:
    url, names = request.getfixturevalue(database)
    alembic(application, "upgrade head", DATABASE_URL=url)
    first = names()
    assert len(first) > len(LEFT)
    alembic(application, "downgrade base", DATABASE_URL=url)
    assert names() <= LEFT
    said = alembic(application, "upgrade head", "check", DATABASE_URL=url)
    assert names() == first
    assert "No new upgrade operations detected" in said
