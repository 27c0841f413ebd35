"""Held records and claims by the handful."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from postroom import UntypedEvent
from postroom.store.base import Claim, HeldRecord
from tests.support.claims import claimed


def record(
    position: int, key: str | None = None, *, token: int = 1, fault: str | None = None, **row: Any
) -> HeldRecord:
    """Return a held record of a key, or of none, in partition 1 unless the row says otherwise."""
    event = UntypedEvent(event_type="parcel.sent", payload={}, aggregate_id=key)
    values = {"partition": 1, "id": UUID(int=position), **row}
    return HeldRecord(claimed(event, position=position, **values), token=token, fault=fault)


def claim(
    *records: HeldRecord, more: Iterable[int] = (), reached: Mapping[int, int] | None = None
) -> Claim:
    """Return a claim of these records."""
    return Claim(records=records, more=frozenset(more), reached=reached or {})


def positions(records: Iterable[HeldRecord]) -> list[int]:
    return [each.position for each in records]


def many(
    count: int, partition: int = 1, first: int = 1, key: str | None = None
) -> list[HeldRecord]:
    """Return records at positions one after the other."""
    return [record(each, key, partition=partition) for each in range(first, first + count)]
