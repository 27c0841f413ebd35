"""The record by itself: its defaults, its partition, and the synonyms of its columns."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom import OutboxRecord, Status
from postroom.identity import uuid7
from postroom.record import PARTITIONS, key_hash

# Maps nothing: OutboxRecord is as plain as any dataclass here.
UNMAPPED = """
from datetime import UTC, datetime
from postroom import OutboxRecord
record = OutboxRecord(event_type="x", payload={})
assert (record.delivered, record.delivered_at, record.processed_at) == (False, None, None)
record.status, record.published_at = "published", datetime(2026, 1, 1, tzinfo=UTC)
assert record.delivered is True
assert record.delivered_at == record.processed_at == datetime(2026, 1, 1, tzinfo=UTC)
record.status = "failed"
assert record.delivered is False
"""


def record(aggregate_type: str | None = None, aggregate_id: str | None = None) -> OutboxRecord:
    return OutboxRecord(
        event_type="x", payload={}, aggregate_type=aggregate_type, aggregate_id=aggregate_id
    )


@pytest.mark.requirement("A1", "C3")
def test_a_new_record_waits_for_its_first_attempt() -> None:
    new = record()
    assert (new.status, new.retry_count, new.max_retries) == ("pending", 0, 10)
    assert (new.published_at, new.error_message, new.due_at) == (None, None, None)
    assert new.event_version == 1
    assert new.headers == {}
    # The database numbers and dates it.
    assert (new.position, new.created_at, new.updated_at) == (None, None, None)


def test_a_record_occurs_now_unless_told_otherwise() -> None:
    before = datetime.now(UTC)
    assert before <= record().occurred_at <= datetime.now(UTC)


def test_records_do_not_share_their_headers() -> None:
    first, second = record(), record()
    first.headers["trace"] = "t"
    assert second.headers == {}


@pytest.mark.requirement("C3")
def test_the_three_states_are_plain_words() -> None:
    assert list(Status) == ["pending", "published", "failed"]


@pytest.mark.parametrize(
    ("aggregate_type", "aggregate_id", "partition"),
    [
        ("account", "42", 47),
        ("group_message", "7b0e4a3e-1f5e-4b8c-9c1b-0d7c6a5f4e3d", 3),
        (None, "ünïcode", 50),
    ],
)
def test_partitions_are_the_same_for_ever(
    aggregate_type: str | None, aggregate_id: str, partition: int
) -> None:
    """A change of these numbers breaks the order of every outbox in production."""
    assert record(aggregate_type, aggregate_id).partition == partition


@given(st.none() | st.text(st.characters(exclude_categories=["Cs"])), st.uuids().map(str))
def test_one_key_is_always_in_one_partition(aggregate_type: str | None, aggregate_id: str) -> None:
    first, second = record(aggregate_type, aggregate_id), record(aggregate_type, aggregate_id)
    assert first.id != second.id
    assert first.partition == second.partition
    assert 0 <= first.partition < PARTITIONS


def test_the_aggregate_s_type_is_part_of_its_key() -> None:
    assert key_hash("account", "1") != key_hash("invoice", "1")
    assert key_hash("a", "bc") != key_hash("ab", "c")


MAKERS: dict[str, Callable[[int], OutboxRecord]] = {
    "keys": lambda number: record("account", str(number)),
    "without a key": lambda number: record(),
    "a type without an id is no key": lambda number: record("account"),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_records_are_spread_over_all_partitions(make: Callable[[int], OutboxRecord]) -> None:
    assert len({make(number).partition for number in range(2000)}) == PARTITIONS


def test_ids_are_uuids_of_version_7_that_begin_with_the_time() -> None:
    before = datetime.now(UTC).timestamp() * 1000
    made = uuid7()
    after = datetime.now(UTC).timestamp() * 1000
    assert (made.version, made.variant) == (7, UUID(int=1 << 63).variant)
    assert int(before) <= made.int >> 80 <= after
    assert len({uuid7() for _ in range(1000)}) == 1000


@pytest.mark.requirement("A2")
def test_the_synonyms_work_on_a_record_that_is_not_mapped() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", UNMAPPED], check=True)
