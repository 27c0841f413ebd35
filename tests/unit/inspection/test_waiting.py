"""What is said of a record that others wait for."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from postroom import Key
from postroom.inspection import RecordState, RecordSummary
from postroom.inspection.waiting import described

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(("retry_count", "verdict"), [(0, "postponed"), (2, "refused")])
def test_a_record_without_a_refusal_was_postponed(retry_count: int, verdict: str) -> None:
    record = RecordSummary(
        position=1,
        id=uuid4(),
        event_type="order.paid",
        key=Key("order", "7"),
        state=RecordState.WAITING,
        retry_count=retry_count,
        created_at=NOW,
        updated_at=NOW - timedelta(seconds=5),
        due_at=NOW + timedelta(seconds=10),
        published_at=None,
        error="a queue is full",
    )
    assert described(record, NOW) == f"({verdict}, 5.0 s ago, next try in 10 s): a queue is full"
