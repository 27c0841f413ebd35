"""The migrations make what the application expects, and leave nothing when they are undone."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.support.command import Commands
from tests.support.migrated import empty_database

Tables = Callable[[], set[str]]
Target = tuple[str, Tables]
"""The URL of an empty database, and what tells its tables."""


@pytest.fixture
def postgresql() -> Iterator[Target]:
    with empty_database("accounts") as url:

        def tables() -> set[str]:
            with psycopg.connect(url.replace("+asyncpg", "")) as connection:
                query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
                return {name for [name] in connection.execute(query)}

        yield url, tables


@pytest.fixture
def sqlite(tmp_path: Path) -> Target:
    file = tmp_path / "accounts.db"

    def tables() -> set[str]:
        with closing(sqlite3.connect(file)) as connection:
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
            names = {name for [name] in connection.execute(query)}
            return names - {"sqlite_sequence"}  # SQLite's own, and it cannot be dropped

    return f"sqlite+aiosqlite:///{file}", tables


@pytest.mark.parametrize("database", ["postgresql", "sqlite"])
async def test_up_down_up_and_down_again(
    commands: Commands, request: pytest.FixtureRequest, database: str
) -> None:
    url, tables = request.getfixturevalue(database)
    steps = ["upgrade head", "downgrade base", "upgrade head", "check", "downgrade base"]
    command = commands.python("-m", "examples.accounts.tests.migrate", *steps, DATABASE_URL=url)
    assert await command.code() == 0, command.err
    assert "No new upgrade operations detected" in command.out
    assert tables() == {"alembic_version"}
