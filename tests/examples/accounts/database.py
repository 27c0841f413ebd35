"""What the application has written, and faults that only a database can have."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.beside import Beside

WAIT = """
    CREATE OR REPLACE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN PERFORM pg_advisory_xact_lock(19, 19); RETURN NEW; END $$
"""
WAITING = """
    SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
    AND classid = 19 AND objid = 19
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@dataclass(frozen=True, slots=True)
class Record:
    """What the outbox says of one event."""

    status: str
    retry_count: int
    text: str


class Database(Beside):
    """The application's, seen from beside it."""

    def count(self, table: str, column: str, value: object) -> int:
        """Count the rows of a table with this value."""
        [[found]] = self.rows(f"SELECT count(*) FROM {table} WHERE {column}::text = %s", str(value))
        return int(found)

    def profiles(self, account_id: object) -> int:
        """Count the profiles of an account."""
        return self.count("profiles", "account_id", account_id)

    def record(self, account_id: object) -> Record:
        """Give the one record of an account."""
        query = "SELECT status, retry_count, outbox::text FROM outbox WHERE aggregate_id = %s"
        [row] = self.rows(query, str(account_id))
        return Record(*row)

    def is_delivered(self, account_id: object) -> bool:
        return self.record(account_id).status == "published"

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

    def cut_connections(self) -> None:
        """End every connection but this one."""
        self.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
