"""What the application has written, and faults that only a database can have."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.examples.other_connection import OtherConnection

WAIT = """
    CREATE OR REPLACE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN PERFORM pg_advisory_xact_lock(19, 19); RETURN NEW; END $$
"""
WAITING = """
    SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
    AND classid = 19 AND objid = 19
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class Database(OtherConnection):
    """The application's, seen from beside it."""

    def accounts(self, table: str = "accounts") -> list[str]:
        """Give the ids of all accounts, or those that another table has, sorted."""
        column = "aggregate_id" if table == "outbox" else "account_id"
        return [each for [each] in self.rows(f"SELECT {column}::text FROM {table} ORDER BY 1")]

    def records(self) -> list[tuple[str, int]]:
        """Give the status of each record, and its count of failures."""
        query = "SELECT status, retry_count FROM outbox ORDER BY position"
        return [(status, count) for status, count in self.rows(query)]

    def all_is_delivered(self) -> bool:
        return {status for status, _ in self.records()} == {"published"}

    @contextmanager
    def holding_up(self, what: str, table: str) -> Iterator[None]:
        """Have every INSERT or UPDATE of a table wait until the end of the block."""
        self.rows(WAIT)
        self.rows(
            f"CREATE TRIGGER wait BEFORE {what} ON {table} FOR EACH ROW EXECUTE FUNCTION wait()"
        )
        self.rows("SELECT pg_advisory_lock(19, 19)")
        try:
            yield
        finally:
            self.rows("SELECT pg_advisory_unlock(19, 19)")
            self.rows(f"DROP TRIGGER wait ON {table}")

    def held_up(self) -> int:
        """Count those that wait."""
        return len(self.rows(WAITING))

    def end_what_waits(self) -> None:
        """End the connections that are held up: that of a dead process may yet go on."""
        self.rows(f"SELECT pg_terminate_backend(pid) FROM ({WAITING}) AS waiting")
