"""Claimed records by the handful."""

from typing import Any

from postroom import UntypedEvent
from postroom.record import ClaimedRecord
from tests.support.claims import claimed


def record(position: int, key: str | None = None, **values: Any) -> ClaimedRecord:
    """Give a record of a key, or of none."""
    event = UntypedEvent(event_type="parcel.sent", payload={}, aggregate_id=key)
    return claimed(event, position=position, **{"partition": 1, **values})


def positions(records: list[ClaimedRecord]) -> list[int]:
    return [each.position for each in records]
