"""What may leave, and in which order."""

from datetime import UTC, datetime

import pytest

from postroom.record import Key, Status
from postroom.store.base import HeldRecord
from tests.conformance.store.rig import (
    LEASE,
    MINUTE,
    StoreRig,
    names_of,
    numbered,
    positions,
    tokens_of,
)


class Claiming:
    """Claims without anybody in the way."""

    async def test_records_come_in_the_order_of_their_positions(self, rig: StoreRig) -> None:
        names = ["b1", "a1", ".1", "a2", "b2", "c1", ".2", "a3"]
        await rig.put(*names)
        claim = await rig.claim()
        assert names_of(claim.records) == names
        assert positions(claim.records) == sorted(positions(claim.records))

    async def test_a_record_comes_as_it_was_put(self, rig: StoreRig) -> None:
        moment = datetime(2026, 1, 5, 12, 30, 15, 123456, tzinfo=UTC)
        payload = {"ü": "💌", "deep": [1, None, {"x": 1.5}], "big": 2**53}
        await rig.put(
            "ä1",
            aggregate_type="Größe",
            aggregate_id="💌 'quoted' \\ \" %s :x",
            payload=payload,
            headers={"trace": "00-1"},
            event_version=3,
            retry_count=2,
            max_retries=None,
            occurred_at=moment,
        )
        [held] = (await rig.claim()).records
        record, row = held.record, await rig.row("ä1")
        assert record.payload == payload
        assert (record.id, record.position, record.partition) == (
            row.id,
            row.position,
            row.partition,
        )
        assert (record.event_type, record.event_version) == ("ä1", 3)
        assert record.key == Key("Größe", "💌 'quoted' \\ \" %s :x")
        assert (record.headers, record.retry_count, record.max_retries) == (
            {"trace": "00-1"},
            2,
            None,
        )
        assert (record.occurred_at, record.created_at) == (moment, row.created_at)
        assert (held.fault, held.blocks_key) == (None, False)

    async def test_a_record_carries_the_token_of_its_lease(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1")
        rig.later(LEASE)
        await rig.poll()
        rig.later(2 * LEASE)
        tokens = tokens_of(await rig.poll("bob"))
        claim = await rig.store.claims.claim(tokens, depth=10)
        assert {each.partition: each.token for each in claim.records} == tokens

    async def test_depth_is_per_partition_so_that_a_batch_holds_many_keys(
        self, rig: StoreRig
    ) -> None:
        for partition in (1, 2, 3):
            await rig.put(*numbered(f"k{partition}-", 1, 5), partition=partition)
        claim = await rig.claim(depth=2)
        assert names_of(claim.records) == ["k1-1", "k1-2", "k2-1", "k2-2", "k3-1", "k3-2"]
        assert claim.more

    async def test_held_records_are_left_out_and_take_no_room(self, rig: StoreRig) -> None:
        await rig.put(*numbered(".", 1, 5), partition=1)
        first = await rig.claim(depth=2)
        second = await rig.claim(depth=2, held=first.records)
        assert names_of(second.records) == [".3", ".4"]

    async def test_held_records_are_left_out_when_they_are_due(self, rig: StoreRig) -> None:
        await rig.put(*numbered(".", 1, 5), partition=1, ready=False, due_at=rig.now() - MINUTE)
        first = await rig.claim(depth=2)
        second = await rig.claim(depth=2, held=first.records)
        assert names_of(first.records) == [".1", ".2"]
        assert names_of(second.records) == [".3", ".4"]

    async def test_more_says_whether_it_pays_to_ask_again(self, rig: StoreRig) -> None:
        await rig.put(*numbered(".", 1, 3), partition=1)
        assert (await rig.claim(depth=2)).more
        assert (await rig.claim(depth=3)).more  # who knows
        assert not (await rig.claim(depth=4)).more

    async def test_more_names_the_partitions_that_may_have_it(self, rig: StoreRig) -> None:
        await rig.put(*numbered(".", 1, 3), partition=1)
        await rig.put(".4", partition=2)
        assert (await rig.claim(depth=2)).more == {1}

    async def test_a_claim_reads_and_writes_nothing(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", ".1")
        before = await rig.rows()
        await rig.claim()
        assert await rig.rows() == before
        assert await rig.open_to_claim() == ["a1", "a2", ".1"]

    async def test_only_the_partitions_asked_for_are_read(self, rig: StoreRig) -> None:
        await rig.put(".1", partition=1)
        await rig.put(".2", partition=2)
        claim = await rig.store.claims.claim({2: 7}, depth=10)
        assert [(each.record.event_type, each.token) for each in claim.records] == [(".2", 7)]

    async def test_without_partitions_there_is_nothing(self, rig: StoreRig) -> None:
        await rig.put("a1")
        claim = await rig.store.claims.claim({}, depth=10)
        assert (claim.records, set(claim.more)) == ((), set())

    async def test_what_is_due_comes_and_what_is_not_yet_does_not(self, rig: StoreRig) -> None:
        await rig.put("a1", ready=False, due_at=rig.now() - MINUTE)
        await rig.put("b1", ready=False, due_at=rig.now() + MINUTE)
        await rig.put("c1")
        assert await rig.open_to_claim() == ["a1", "c1"]
        rig.later(2 * MINUTE)
        assert await rig.open_to_claim() == ["a1", "b1", "c1"]

    async def test_a_delayed_record_that_is_delivered_does_not_come_again(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", ready=False, due_at=rig.now() - MINUTE)
        await rig.deliver("a1")
        rig.later(10 * MINUTE)
        assert await rig.open_to_claim() == []

    async def test_delivered_and_failed_records_do_not_come_again(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1", ".1", ".2")
        await rig.deliver("a1", ".1")
        await rig.fail("b1", ".2")
        rig.later(100 * MINUTE)
        assert await rig.open_to_claim() == []

    @pytest.mark.parametrize("status", [Status.PUBLISHED, Status.FAILED])
    async def test_records_whose_status_somebody_set_by_hand_do_not_shut_out_others(
        self, rig: StoreRig, status: Status
    ) -> None:
        await rig.put("a1", "b1", "c1", partition=1)
        await rig.edit("a1", status=status)
        await rig.edit("b1", status=status)
        assert await rig.open_to_claim(depth=2) == []
        assert await rig.open_to_claim(depth=2) == ["c1"]

    async def test_a_full_house_of_due_records_does_not_shut_out_ready_ones(
        self, rig: StoreRig
    ) -> None:
        await rig.put(*numbered(".", 1, 9), partition=1, ready=False, due_at=rig.now() - MINUTE)
        await rig.put(".ready", partition=1)
        assert ".ready" in await rig.open_to_claim(depth=2)

    async def test_thousands_of_held_records_are_fine(self, rig: StoreRig) -> None:
        await rig.put("a1")
        [a1] = await rig.claimed("a1")
        held = [HeldRecord(a1.record, 1, id_=f"{number:032x}") for number in range(30_000)]
        assert await rig.open_to_claim(held=held) == ["a1"]
