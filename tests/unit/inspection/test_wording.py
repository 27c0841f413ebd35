"""Durations, counts, keys, and results as JSON."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.inspection import (
    RecordState,
    TypeCounts,
    as_json,
    counted,
    duration,
    key_text,
    parse_key,
)
from postroom.record import Key

NAMES = st.text(min_size=1)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.04, "0.0 s"),
        (0.4, "0.4 s"),
        (12, "12 s"),
        (119, "119 s"),
        (120, "2 min"),
        (8000, "2 h"),
        (200_000, "2 d"),
    ],
)
def test_a_duration_is_written_in_its_largest_unit(seconds: float, expected: str) -> None:
    assert duration(timedelta(seconds=seconds)) == expected


def test_things_are_counted() -> None:
    assert counted(1, "record") == "1 record"
    assert counted(1200, "record") == "1,200 records"
    assert counted(10_000, "key", at_least=True) == "at least 10,000 keys"


@given(NAMES.filter(lambda name: "/" not in name) | st.just(""), NAMES)
def test_a_key_is_read_as_it_was_written(aggregate_type: str, aggregate_id: str) -> None:
    key = Key(aggregate_type, aggregate_id)
    assert parse_key(key_text(key)) == key


def test_a_result_is_json() -> None:
    counts = TypeCounts(event_type="paid", pending=1, failed=0, oldest_pending=timedelta(minutes=1))
    given = {
        "counts": (counts,),
        "key": Key("order", "7"),
        "id": UUID(int=7),
        "at": datetime(2026, 1, 31, tzinfo=UTC),
        "state": RecordState.READY,
    }
    assert json.loads(json.dumps(as_json(given))) == {
        "counts": [{"event_type": "paid", "pending": 1, "failed": 0, "oldest_pending": 60.0}],
        "key": "order/7",
        "id": "00000000-0000-0000-0000-000000000007",
        "at": "2026-01-31T00:00:00+00:00",
        "state": "ready",
    }
