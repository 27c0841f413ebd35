"""The migrations, as whoever deploys the application runs them."""

import pytest

from tests.examples.family.database import Database
from tests.support.migrated import alembic, empty_database

OURS = "SELECT relname AS name FROM pg_class WHERE relnamespace = to_regnamespace('auth')"


@pytest.mark.requirement("D10")
def test_they_go_up_and_down_and_up_again() -> None:
    with empty_database("family") as url:
        database = Database(url)
        alembic("family", "upgrade head", DATABASE_URL=url)
        first = {row["name"] for row in database.run(OURS)}
        assert {"families", "family_member_invitations", "outbox_events"} <= first
        alembic("family", "downgrade base", DATABASE_URL=url)
        assert database.run(OURS) == []
        said = alembic("family", "upgrade head", "check", DATABASE_URL=url)
        assert {row["name"] for row in database.run(OURS)} == first
        assert "No new upgrade operations" in said
        database.close()
