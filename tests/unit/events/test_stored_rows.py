"""Rows that an older postroom stored are read for ever, and written as they were."""

import json

import pytest

from postroom import UntypedEvent, deserialize_event
from postroom.events.codec import same
from postroom.events.payload import encode_event
from tests.unit.events.jsonb import as_jsonb
from tests.unit.events.stored.cases import Case
from tests.unit.events.stored.rows import CASES, stored_rows

ROWS = stored_rows()


@pytest.mark.requirement("A7")
@pytest.mark.parametrize("with_column", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_stored_row_gives_the_event_that_was_saved(case: Case, with_column: bool) -> None:
    row = ROWS[case.name]
    if isinstance(case.expected, UntypedEvent):
        assert same(json.loads(row["payload"]), case.expected.payload)
        return
    version = row["event_version"] if with_column else None
    event = deserialize_event(
        row["event_type"], row["payload"], version=version, registry=case.registry
    )
    assert event == case.expected
    assert same(event, case.expected)


WRITABLE = [case for case in CASES if case.name != "deep_event"]
"""What can be captured still; that event has too many levels."""


@pytest.mark.requirement("A6")
@pytest.mark.parametrize("case", WRITABLE, ids=lambda case: case.name)
def test_an_event_is_written_as_its_row_was(case: Case) -> None:
    row, written = json.loads(ROWS[case.name]["payload"]), as_jsonb(encode_event(case.written))
    for document in (row, written):
        document.get("tags", []).sort()  # of a model: pydantic writes a set in any order
    assert same(written, row)


def test_every_row_has_an_event_and_every_event_a_row() -> None:
    assert list(ROWS) == [case.name for case in CASES]
