"""What the family hub has written, seen from beside it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.support.beside import Beside

COLUMNS = (
    *("event_type", "event_version", "aggregate_type", "aggregate_id", "payload", "status"),
    *("created_at", "updated_at", "due_at", "published_at"),
    *("retry_count", "max_retries", "error_message"),
)


@dataclass(frozen=True, slots=True)
class Record:
    """What the outbox says of one event."""

    event_type: str
    event_version: int
    aggregate_type: str
    aggregate_id: str
    payload: dict[str, Any]
    status: str
    created_at: datetime
    updated_at: datetime
    due_at: datetime
    published_at: datetime | None
    retry_count: int
    max_retries: int | None
    error_message: str | None


class Database(Beside):
    """The application's."""

    def records(self) -> list[Record]:
        """Give all records, in their order."""
        query = f"SELECT {', '.join(COLUMNS)} FROM auth.outbox_events ORDER BY position"
        return [Record(*row) for row in self.rows(query)]

    def all_is_published(self) -> bool:
        return {record.status for record in self.records()} == {"published"}
