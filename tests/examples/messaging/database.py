"""What the application has written, and faults that only a database can have."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.examples.other_connection import OtherConnection

HELD_UP = """
    SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE relation = %s::regclass AND NOT granted
"""


@dataclass(frozen=True, slots=True)
class Record:
    """What the outbox says of one event."""

    event_type: str
    status: str
    retry_count: int
    error_message: str | None
    payload: dict[str, Any]


class Database(OtherConnection):
    """The application's, seen from beside it."""

    def records(self, message_id: str) -> list[Record]:
        """Give the records of one message, in their order."""
        query = (
            "SELECT event_type, status, retry_count, error_message, payload FROM outbox_events"
            " WHERE aggregate_id = %s ORDER BY position"
        )
        return [Record(*row) for row in self.rows(query, message_id)]

    def events(self, message_id: str) -> list[str]:
        """Give what was told of one message, in its order, without the type of the aggregate."""
        return [each.event_type.partition(".")[2] for each in self.records(message_id)]

    def is_published(self, message_id: str) -> bool:
        """Tell whether all that was told of one message is delivered."""
        return {each.status for each in self.records(message_id)} == {"published"}

    def deliveries(self, message_id: str) -> list[str]:
        """Give who was sent a message, once for each time."""
        query = "SELECT recipient FROM deliveries WHERE message_id = %s ORDER BY recipient"
        return [recipient for [recipient] in self.rows(query, message_id)]

    def is_completed(self, message_id: str) -> bool:
        query = "SELECT status FROM group_messages WHERE id = %s"
        return self.rows(query, message_id) == [("completed",)]

    def left_behind(self, account_id: UUID) -> tuple[int, int]:
        """Count the group messages of an account, and the records of all that it did."""
        messages = "SELECT count(*) FROM group_messages WHERE account_id = %s"
        records = "SELECT count(*) FROM outbox_events WHERE payload ->> 'account_id' = %s"
        [[entities]] = self.rows(messages, account_id)
        [[events]] = self.rows(records, str(account_id))
        return entities, events

    @contextmanager
    def locking(self, table: str) -> Iterator[None]:
        """Have everybody wait until the end of the block who writes to a table, or is about to."""
        with self.connect() as other, other.transaction():
            other.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE".encode())
            yield

    def held_up(self, table: str) -> int:
        """Count those who wait for a table."""
        return len(self.rows(HELD_UP, table))
