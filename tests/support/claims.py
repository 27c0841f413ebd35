"""Records as a relay would have claimed them, made of events."""

from datetime import UTC, datetime
from typing import Any

from postroom import Event
from postroom.events.description import describe
from postroom.events.payload import to_json
from postroom.record import PARTITIONS, ClaimedRecord

MOMENT = datetime(2026, 1, 5, 12, tzinfo=UTC)


def claimed(event: Event, *, position: int = 1, **values: Any) -> ClaimedRecord:
    """Give the record of an event; `values` are what its row says otherwise."""
    described = describe(event)
    row: dict[str, Any] = {
        "position": position,
        "id": described.event_id,
        "event_type": described.event_type,
        "event_version": described.event_version,
        "aggregate_type": described.aggregate_type,
        "aggregate_id": described.aggregate_id,
        "payload_json": to_json(described.payload),
        "headers": {},
        "retry_count": 0,
        "max_retries": 10,
        "occurred_at": described.occurred_at,
        "created_at": MOMENT,
        "partition": position % PARTITIONS,
    }
    return ClaimedRecord(**row | values)
