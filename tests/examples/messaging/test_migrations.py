"""The migrations go up, down and up again, and make what the application expects."""

import pytest

from tests.examples.conftest import Target
from tests.support.migrated import alembic

OURS = {
    *("channels", "templates", "contact_groups", "group_messages", "scheduled_messages"),
    "deliveries",
    *("outbox_events", "outbox_events_leases", "outbox_events_workers"),
    *("outbox_events_blocked_keys", "outbox_events_attempts", "outbox_events_pauses"),
    *("outbox_events_audit", "outbox_events_inbox"),
}


@pytest.mark.requirement("C3")
def test_up_down_and_up_again(empty: Target) -> None:
    url, tables = empty
    alembic("messaging", "upgrade head", "downgrade base", DATABASE_URL=url)
    assert tables() == {"alembic_version"}
    said = alembic("messaging", "upgrade head", "check", DATABASE_URL=url)
    assert "No new upgrade operations detected" in said
    assert tables() == OURS | {"alembic_version"}
