"""Filters: from an address and back, and what is said about one that cannot be."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

import pytest

from postroom.console.filters import FIELDS, MAX_LENGTH, read_filter
from postroom.inspection import PENDING, RecordFilter, RecordState
from postroom.record import Key

GIVEN = [
    *(("state", "failed"), ("state", "ready"), ("state", "failed"), ("type", " order.* ")),
    *(("key", "order/7/8"), ("error", "card & expired"), ("older_than", "15m")),
    *(("younger_than", "2h"), ("since", "2026-01-31"), ("until", "2026-01-31T12:00+01:00")),
]


def test_a_filter_is_read() -> None:
    form = read_filter([*GIVEN, ("after", "7"), ("record", "1"), ("type", "")])
    assert form.problems == {}
    assert form.where == RecordFilter(
        states=frozenset({RecordState.FAILED, RecordState.READY}),
        event_type="order.*",
        key=Key("order", "7/8"),
        error="card & expired",
        older_than=timedelta(minutes=15),
        younger_than=timedelta(hours=2),
        since=datetime(2026, 1, 31, tzinfo=UTC),
        until=datetime(2026, 1, 31, 11, tzinfo=UTC),
    )
    assert not form.is_empty


def test_a_filter_is_written_as_it_was_read() -> None:
    form = read_filter(GIVEN)
    assert read_filter(parse_qsl(form.query())) == form
    assert parse_qsl(form.query(after=7, order=None))[-1] == ("after", "7")


def test_a_filter_without_values_allows_everything() -> None:
    form = read_filter([("type", " "), ("state", ""), ("unknown", "x")])
    assert form.is_empty
    assert (form.where, form.problems, form.query()) == (RecordFilter(), {}, "")


def test_pending_is_all_that_is_not_delivered_and_not_failed() -> None:
    assert read_filter([("state", "pending")]).where.states == PENDING


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("state", each) for each in ("gone", "FAILED", "failed'--", "\0", "__class__")),
        *((each, "x" * (MAX_LENGTH + 1)) for each in FIELDS),
        *((each, "a\0b") for each in FIELDS),
        *(("older_than", each) for each in ("", "-1h", "1", "h", "1e5d", "٣h", "1y", "inf d")[1:]),
        *(("older_than", each) for each in ("365001d", "999999999d", "9" * 600 + "w")),
        *(("since", each) for each in ("now", "2026-13-01", "10000-01-01", "-1", "2026-01-31T25")),
        ("since", "0001-01-01T00:00+23:59"),
        ("until", "9999-12-31T23:59-23:59"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_cannot_be_read_is_explained_and_left_out(name: str, value: str) -> None:
    form = read_filter(
        [(name, value), ("type", "order.paid")] if name != "type" else [(name, value)]
    )
    assert list(form.problems) == [name]
    assert form.problems[name]
    assert form.where == RecordFilter(event_type=None if name == "type" else "order.paid")


def test_the_longest_times_can_be_asked_for() -> None:
    form = read_filter(
        [("older_than", "365000d"), ("since", "0001-01-01"), ("until", "9999-12-31T23:59:59Z")]
    )
    assert form.problems == {}
