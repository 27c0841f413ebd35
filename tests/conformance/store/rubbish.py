"""Rows that somebody edited by hand, to rubbish: they stand in nobody's way."""

from typing import Any

import pytest

from postroom.store.base import HeldRecord, Settlement
from tests.conformance.store.rig import MINUTE, StoreRig, attempt

ANYWHERE: dict[str, str] = {
    "headers a list": "headers = '[1]'",
    "headers a string": "headers = '\"x\"'",
    "headers null": "headers = 'null'",
    "headers a number": "headers = '7'",
    "headers deep": f"headers = '{'[' * 4000}{']' * 4000}'",
    "headers with a number of 5000 digits": f"headers = '{{\"x\"\\: {'9' * 5000}}}'",
    "payload null": "payload = 'null'",
    "payload a list": "payload = '[]'",
    "count negative": "retry_count = -7",
    "count at its limit": "retry_count = 2147483647",
    "limit negative": "max_retries = -1",
    "limit zero": "max_retries = 0",
    "version zero": "event_version = 0",
    "version negative": "event_version = -5",
    "no event type": "event_type = ''",
    "no aggregate id": "aggregate_id = ''",
    "a type without an id": "aggregate_id = NULL",
    "ready and due": "due_at = created_at",
    "published once": "published_at = created_at",
}
ON_POSTGRES: dict[str, str] = {
    "occurred before Christ": "occurred_at = '0044-03-15 12:00:00 BC'",
    "occurred in the far future": "occurred_at = '99999-01-01'",
    "occurred never": "occurred_at = 'infinity'",
    "occurred always": "occurred_at = '-infinity'",
    "created never": "created_at = 'infinity'",
    "created before Christ": "created_at = '0044-03-15 12:00:00 BC'",
    "due never": "due_at = 'infinity'",
    "due always": "due_at = '-infinity'",
    "due in the far future": "due_at = '99999-01-01'",
}
ON_SQLITE: dict[str, str] = {
    "payload no JSON": "payload = '{'",
    "payload empty": "payload = ''",
    "payload a number": "payload = 7",
    "payload bytes": "payload = x'ff00fe'",
    "headers no JSON": "headers = 'x'",
    "headers bytes": "headers = x'ff'",
    "id no UUID": "id = 'rubbish'",
    "id bytes": "id = x'ff'",
    "id a number": "id = 5",
    "count no number": "retry_count = 'many'",
    "count a fraction": "retry_count = 1.5",
    "count astronomic": "retry_count = 9223372036854775807",
    "limit no number": "max_retries = 'few'",
    "limit bytes": "max_retries = x'00'",
    "version no number": "event_version = 'two'",
    "occurred at no time": "occurred_at = 'yesterday'",
    "occurred at a number": "occurred_at = 1700000000",
    "created at no time": "created_at = 'yesterday'",
    "created at a number": "created_at = 1700000000",
    "due at no time": "due_at = 'tomorrow'",
    "due at a number": "due_at = 1700000000",
    "due in the far future": "due_at = '99999-01-01 00\\:00\\:00'",
    "event type bytes": "event_type = x'ff'",
    "aggregate id bytes": "aggregate_id = x'ff'",
    "aggregate type bytes": "aggregate_type = x'ff'",
}


async def deliver_beside(rig: StoreRig, edit: str) -> HeldRecord | None:
    """Make a row rubbish, and see that its neighbours in the partition leave."""
    await rig.put("z1", "a1", "b1", partition=9)
    await rig.sql(f"UPDATE suite_outbox SET {edit} WHERE event_type = 'a1'")
    claim = await rig.claim()
    good = [each for each in claim.records if each.record.event_type in ("z1", "b1")]
    assert [each.record.event_type for each in good] == ["z1", "b1"]
    rest = [each for each in claim.records if each not in good]
    await rig.store.settlements.settle(Settlement(delivered=good))
    return rest[0] if rest else None


async def see_that_it_can_be_settled(rig: StoreRig, record: HeldRecord) -> None:
    """Have it fail, as a relay does; nobody stumbles over it afterwards."""
    assert isinstance(record.record.event_type, str)
    assert record.fault is None or len(record.fault) < 1000
    await rig.store.settlements.settle(Settlement(attempts=[attempt_of_rubbish(record)]))
    rig.later(MINUTE)
    claim = await rig.claim()
    assert claim.records == ()


def attempt_of_rubbish(record: HeldRecord) -> Any:
    count = min(max(0, record.record.retry_count), 1000)
    counted = record.record._replace(retry_count=count)
    held = HeldRecord(counted, record.token, record.fault, record.id)
    return attempt(held, delay=None, reason=record.fault or "refused")


class Rubbish:
    """A claim never raises: the record has a fault, or can be delivered."""

    @pytest.mark.requirement("E1")
    @pytest.mark.parametrize("edit", ANYWHERE.values(), ids=ANYWHERE.keys())
    async def test_a_rubbish_row_stands_in_nobody_s_way(self, rig: StoreRig, edit: str) -> None:
        record = await deliver_beside(rig, edit)
        assert record is not None
        await see_that_it_can_be_settled(rig, record)

    @pytest.mark.requirement("E1")
    async def test_nor_does_one_that_only_this_database_can_hold(
        self, rig: StoreRig, own_rubbish: str
    ) -> None:
        if record := await deliver_beside(rig, own_rubbish):
            await see_that_it_can_be_settled(rig, record)

    async def test_headers_that_are_no_object_are_a_fault(self, rig: StoreRig) -> None:
        await rig.put("a1", headers=[1])
        [record] = (await rig.claim()).records
        assert record.fault is not None
        assert "headers" in record.fault
        assert record.record.headers == {}
