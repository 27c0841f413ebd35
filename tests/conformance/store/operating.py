"""What people do to records by hand: retry, skip, discard."""

from uuid import uuid4

import pytest

from postroom.store.base import Settlement
from postroom.store.blocked_keys import BlockedKeys
from tests.conformance.store.rig import MINUTE, ZERO, StoreRig, attempt, numbered


class Operating:
    """A failed record holds its key until somebody decides."""

    @pytest.mark.requirement("C11")
    async def test_a_failed_record_that_is_retried_starts_anew(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "a3")
        await rig.fail("a1")
        await rig.claim()
        assert await rig.operations.retry(await rig.ids("a1")) == 1
        row = await rig.row("a1")
        assert (row.status, row.retry_count) == ("pending", 0)
        assert await rig.drain() == ["a1", "a2", "a3"]

    async def test_a_record_without_a_key_can_be_retried(self, rig: StoreRig) -> None:
        await rig.put(".1")
        await rig.fail(".1")
        assert await rig.operations.retry(await rig.ids(".1")) == 1
        assert await rig.drain() == [".1"]

    async def test_a_retried_record_that_fails_again_goes_on_holding(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2")
        await rig.fail("a1")
        await rig.operations.retry(await rig.ids("a1"))
        await rig.fail("a1")
        assert await rig.open_to_claim() == []

    async def test_a_waiting_record_can_be_retried_now(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2")
        await rig.refuse("a1", delay=100 * MINUTE)
        assert await rig.operations.retry(await rig.ids("a1")) == 1
        assert (await rig.row("a1")).retry_count == 0
        assert await rig.drain() == ["a1", "a2"]

    async def test_to_retry_a_follower_does_not_let_it_overtake(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "a3")
        await rig.fail("a1")
        await rig.claim()
        await rig.operations.retry(await rig.ids("a3"))
        assert await rig.open_to_claim() == []
        await rig.operations.retry(await rig.ids("a1"))
        assert await rig.drain() == ["a1", "a2", "a3"]

    async def test_to_retry_a_ready_record_does_not_let_it_overtake(self, rig: StoreRig) -> None:
        await rig.put(".1", ".2", ".3", "a1", "a2", partition=9)
        await rig.operations.retry(await rig.ids("a2"))
        assert "a2" not in await rig.open_to_claim(depth=2)
        assert await rig.open_to_claim() == [".1", ".2", ".3", "a1", "a2"]

    async def test_to_retry_a_freed_follower_does_not_have_it_overtaken(
        self, rig: StoreRig
    ) -> None:
        await rig.put(*numbered("a", 1, 6))
        await rig.refuse("a1", delay=ZERO)
        await rig.claim()
        await rig.deliver("a1")
        await rig.operations.retry(await rig.ids("a3"))
        assert await rig.drain() == numbered("a", 2, 6)

    async def test_what_is_delivered_is_neither_retried_nor_skipped_nor_discarded(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1")
        await rig.deliver("a1")
        before = await rig.rows()
        ids = await rig.ids("a1")
        for action in (rig.operations.retry, rig.operations.skip, rig.operations.discard):
            assert await action(ids) == 0
        assert await rig.rows() == before

    async def test_what_is_not_there_is_not_counted(self, rig: StoreRig) -> None:
        for action in (rig.operations.retry, rig.operations.skip, rig.operations.discard):
            assert await action([uuid4()]) == 0
            assert await action([]) == 0

    async def test_a_skipped_record_stays_failed_and_its_key_goes_on(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "a3")
        await rig.fail("a1")
        await rig.claim()
        assert await rig.operations.skip(await rig.ids("a1")) == 1
        assert await rig.drain() == ["a2", "a3"]
        assert (await rig.row("a1")).status == "failed"

    async def test_a_record_that_may_succeed_yet_is_not_skipped(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2")
        await rig.refuse("a1")
        assert await rig.operations.skip(await rig.ids("a1")) == 0
        assert await rig.open_to_claim() == []

    async def test_to_skip_twice_does_not_skip_the_next_one(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "a3")
        await rig.fail("a1")
        await rig.claim()
        ids = await rig.ids("a1")
        await rig.operations.skip(ids)
        await rig.refuse("a2")
        await rig.operations.skip(ids)
        assert await rig.open_to_claim() == []
        rig.later(2 * MINUTE)
        assert await rig.drain() == ["a2", "a3"]

    async def test_a_skipped_record_can_be_retried_later(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2")
        await rig.fail("a1")
        await rig.operations.skip(await rig.ids("a1"))
        assert await rig.drain() == ["a2"]
        await rig.operations.retry(await rig.ids("a1"))
        assert await rig.drain() == ["a1"]

    async def test_a_discarded_record_is_gone_and_its_key_goes_on(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "a3", ".1")
        await rig.fail("a1")
        await rig.claim()
        assert await rig.operations.discard(await rig.ids("a1", ".1")) == 2
        assert list(await rig.rows()) == ["a2", "a3"]
        assert await rig.drain() == ["a2", "a3"]

    async def test_to_discard_a_follower_leaves_the_others_in_line(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "a3")
        await rig.fail("a1")
        await rig.claim()
        assert await rig.operations.discard(await rig.ids("a2")) == 1
        assert await rig.open_to_claim() == []
        await rig.operations.retry(await rig.ids("a1"))
        assert await rig.drain() == ["a1", "a3"]

    async def test_the_last_of_a_batch_can_be_discarded(self, rig: StoreRig) -> None:
        last = BlockedKeys.RELEASED + 10
        await rig.put(*numbered("a", 1, last))
        await rig.refuse("a1", delay=ZERO)
        await rig.claim()
        await rig.deliver("a1")
        gate = f"a{BlockedKeys.RELEASED + 1}"
        assert await rig.gates() == {"a": gate}
        await rig.operations.discard(await rig.ids(gate))
        rest = [name for name in numbered("a", 2, last) if name != gate]
        released = await rig.open_to_claim()
        await rig.deliver(*released)
        assert released + await rig.drain() == rest

    async def test_several_keys_can_be_dealt_with_at_once(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1", "c1", "a2", "b2", "c2")
        await rig.fail("a1", "b1", "c1")
        await rig.claim()
        assert await rig.operations.skip(await rig.ids("a1", "b1", "c1")) == 3
        assert sorted(await rig.drain()) == ["a2", "b2", "c2"]

    async def test_a_record_on_its_way_can_be_discarded(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2")
        [record] = await rig.claimed("a1")
        await rig.operations.discard([record.record.id])
        await rig.store.settlements.settle(Settlement(delivered=[record]))
        assert await rig.drain() == ["a2"]

    async def test_to_retry_what_is_on_its_way_does_no_harm(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2")
        [record] = await rig.claimed("a1")
        await rig.operations.retry([record.record.id])
        await rig.store.settlements.settle(Settlement(attempts=[attempt(record)]))
        assert await rig.open_to_claim() == []
        rig.later(2 * MINUTE)
        assert await rig.drain() == ["a1", "a2"]
