"""The database of the family hub, as somebody with psql sees it."""

from datetime import timedelta
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.support.waiting import eventually

Row = dict[str, Any]

WAITING = """FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'"""


class Database:
    """Reads, and breaks, what the application has written."""

    def __init__(self, url: str) -> None:
        address = url.replace("+asyncpg", "")
        self._connection = psycopg.connect(address, autocommit=True, row_factory=dict_row)

        self._url = url

    def begin_to_invite(self, family: str, email: str) -> "Database":
        """Invite an address by another connection, which is given, and do not commit."""
        other = Database(self._url)
        other.run("BEGIN")
        other.run(
            "INSERT INTO auth.family_member_invitations VALUES (gen_random_uuid(), %(family)s,"
            " %(email)s, 'Child', gen_random_uuid(), %(email)s, now() + '1 day', now(), 0,"
            " 'Pending')",
            family=family,
            email=email,
        )
        return other

    def close(self) -> None:
        self._connection.close()

    def run(self, statement: str, **values: Any) -> list[Row]:
        cursor = self._connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []

    def invitations(self, family: str) -> list[Row]:
        return self.run(
            "SELECT * FROM auth.family_member_invitations WHERE family_id = %(family)s",
            family=family,
        )

    def records(self, family: str) -> list[Row]:
        """Give the records of a family and its invitations, in order."""
        return self.run(
            "SELECT * FROM auth.outbox_events WHERE payload #>> '{familyId,value}' = %(family)s"
            " ORDER BY position",
            family=family,
        )

    def token(self, invitation: str) -> str:
        """Give the token that was mailed last."""
        [*_, last] = self.run(
            "SELECT payload #>> '{token,value}' AS token FROM auth.outbox_events"
            " WHERE aggregate_id = %(invitation)s ORDER BY position",
            invitation=invitation,
        )
        return str(last["token"])

    def age(self, invitation: str, days: int) -> None:
        """Let so many days pass for an invitation."""
        self.run(
            "UPDATE auth.family_member_invitations SET expires_at = expires_at - %(time)s,"
            " sent_at = sent_at - %(time)s WHERE id = %(invitation)s",
            invitation=invitation,
            time=timedelta(days=days),
        )

    def expire(self, invitation: str) -> None:
        """Let the time of an invitation run out."""
        self.age(invitation, days=14)

    async def somebody_waits(self) -> None:
        """Wait until a session waits for a lock that another one holds."""
        await eventually(lambda: self.run(f"SELECT 1 {WAITING}"))

    def hang_up(self) -> None:
        """End the sessions that wait for a lock."""
        self.run(f"SELECT pg_terminate_backend(pid) {WAITING}")
