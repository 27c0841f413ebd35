"""The migrations make what the application expects, and leave nothing when they are undone."""

from tests.examples.conftest import Target
from tests.support.migrated import alembic

STEPS = ("upgrade head", "downgrade base", "upgrade head", "check", "downgrade base")


def test_up_down_up_and_down_again(empty: Target) -> None:
    url, tables = empty
    said = alembic("accounts", *STEPS, DATABASE_URL=url)
    assert "No new upgrade operations detected" in said
    assert tables() == {"alembic_version"}
