"""The migrations go up, down and up again, and make what the application expects."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.support.command import Commands
from tests.support.migrated import empty_database

OURS = {
    *("channels", "templates", "contact_groups", "group_messages", "scheduled_messages"),
    *("outbox_events", "outbox_events_leases", "outbox_events_workers"),
    *("outbox_events_blocked_keys", "outbox_events_inbox"),
}

Tables = Callable[[], set[str]]
Target = tuple[str, Tables]
"""The URL of an empty database, and what tells its tables."""


@pytest.fixture
def postgresql() -> Iterator[Target]:
    with empty_database("messaging") as url:

        def tables() -> set[str]:
            with psycopg.connect(url.replace("+asyncpg", "")) as connection:
                query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
                return {name for [name] in connection.execute(query)}

        yield url, tables


@pytest.fixture
def sqlite(tmp_path: Path) -> Target:
    file = tmp_path / "messaging.db"

    def tables() -> set[str]:
        with closing(sqlite3.connect(file)) as connection:
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
            names = {name for [name] in connection.execute(query)}
            return names - {"sqlite_sequence"}  # SQLite's own, and it cannot be dropped

    return f"sqlite+aiosqlite:///{file}", tables


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("database", ["postgresql", "sqlite"])
async def test_up_down_and_up_again(
    commands: Commands, request: pytest.FixtureRequest, database: str
) -> None:
    url, tables = request.getfixturevalue(database)

    async def alembic(*words: str) -> str:
        script = "examples.messaging.tests.migrate"
        command = commands.python("-m", script, *words, DATABASE_URL=url)
        assert await command.code() == 0, command.err
        return command.out

    await alembic("upgrade head", "downgrade base")
    assert tables() == {"alembic_version"}
    assert "No new upgrade operations detected" in await alembic("upgrade head", "check")
    assert tables() == OURS | {"alembic_version"}
