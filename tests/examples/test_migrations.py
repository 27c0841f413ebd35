"""The migrations of each application go up, down and up again, and make what it expects."""

from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from tests.examples.migrated import alembic, empty_database

pytestmark = pytest.mark.extended


def tables(url: str) -> set[str]:
    """Give the names of all tables of a database."""
    engine = create_engine(url.replace("+asyncpg", "+psycopg").replace("+aiosqlite", ""))
    inspector = inspect(engine)
    schemas = set(inspector.get_schema_names()) - {"information_schema"}
    names = {name for schema in schemas for name in inspector.get_table_names(schema)}
    engine.dispose()
    return names


def go_up_and_down_and_up_again(application: str, url: str) -> None:
    alembic(application, "upgrade head", DATABASE_URL=url)
    made = tables(url)
    assert {"alembic_version"} < made
    alembic(application, "downgrade base", DATABASE_URL=url)
    assert tables(url) == {"alembic_version"}
    said = alembic(application, "upgrade head", "check", DATABASE_URL=url)
    assert tables(url) == made
    assert "No new upgrade operations detected" in said


@pytest.mark.requirement("C3")
@pytest.mark.requirement("D10")
@pytest.mark.parametrize("application", ["accounts", "family", "messaging"])
def test_they_go_up_and_down_and_up_again_on_postgresql(application: str) -> None:
    with empty_database(application) as url:
        go_up_and_down_and_up_again(application, url)


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("application", ["accounts", "messaging"])
def test_they_go_up_and_down_and_up_again_on_sqlite(application: str, tmp_path: Path) -> None:
    go_up_and_down_and_up_again(application, f"sqlite+aiosqlite:///{tmp_path}/example.db")
