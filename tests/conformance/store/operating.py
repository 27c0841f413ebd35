"""What people do to records by hand: retry, skip, discard."""

from uuid import uuid4

import pytest

from postroom.store.base import Settlement
from postroom.store.blocked_keys import BlockedKeys
from tests.conformance.store.desk import MINUTE, ZERO, Desk, attempt, numbered


class Operating:
    """A failed record holds its key until somebody decides."""

    @pytest.mark.requirement("C11")
    async def test_a_failed_record_that_is_retried_starts_anew(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "a3")
        await desk.fail("a1")
        await desk.claim()
        assert await desk.operations.retry(await desk.ids("a1")) == 1
        row = await desk.row("a1")
        assert (row.status, row.retry_count) == ("pending", 0)
        assert await desk.drain() == ["a1", "a2", "a3"]

    async def test_a_record_without_a_key_can_be_retried(self, desk: Desk) -> None:
        await desk.put(".1")
        await desk.fail(".1")
        assert await desk.operations.retry(await desk.ids(".1")) == 1
        assert await desk.drain() == [".1"]

    async def test_a_retried_record_that_fails_again_goes_on_holding(self, desk: Desk) -> None:
        await desk.put("a1", "a2")
        await desk.fail("a1")
        await desk.operations.retry(await desk.ids("a1"))
        await desk.fail("a1")
        assert await desk.open_to_claim() == []

    async def test_a_waiting_record_can_be_retried_now(self, desk: Desk) -> None:
        await desk.put("a1", "a2")
        await desk.refuse("a1", delay=100 * MINUTE)
        assert await desk.operations.retry(await desk.ids("a1")) == 1
        assert (await desk.row("a1")).retry_count == 0
        assert await desk.drain() == ["a1", "a2"]

    async def test_to_retry_a_follower_does_not_let_it_overtake(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "a3")
        await desk.fail("a1")
        await desk.claim()
        await desk.operations.retry(await desk.ids("a3"))
        assert await desk.open_to_claim() == []
        await desk.operations.retry(await desk.ids("a1"))
        assert await desk.drain() == ["a1", "a2", "a3"]

    async def test_to_retry_a_ready_record_does_not_let_it_overtake(self, desk: Desk) -> None:
        await desk.put(".1", ".2", ".3", "a1", "a2", partition=9)
        await desk.operations.retry(await desk.ids("a2"))
        assert "a2" not in await desk.open_to_claim(depth=2)
        assert await desk.open_to_claim() == [".1", ".2", ".3", "a1", "a2"]

    async def test_to_retry_a_freed_follower_does_not_have_it_overtaken(self, desk: Desk) -> None:
        await desk.put(*numbered("a", 1, 6))
        await desk.refuse("a1", delay=ZERO)
        await desk.claim()
        await desk.deliver("a1")
        await desk.operations.retry(await desk.ids("a3"))
        assert await desk.drain() == numbered("a", 2, 6)

    async def test_what_is_delivered_is_neither_retried_nor_skipped_nor_discarded(
        self, desk: Desk
    ) -> None:
        await desk.put("a1")
        await desk.deliver("a1")
        before = await desk.rows()
        ids = await desk.ids("a1")
        for action in (desk.operations.retry, desk.operations.skip, desk.operations.discard):
            assert await action(ids) == 0
        assert await desk.rows() == before

    async def test_what_is_not_there_is_not_counted(self, desk: Desk) -> None:
        for action in (desk.operations.retry, desk.operations.skip, desk.operations.discard):
            assert await action([uuid4()]) == 0
            assert await action([]) == 0

    async def test_a_skipped_record_stays_failed_and_its_key_goes_on(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "a3")
        await desk.fail("a1")
        await desk.claim()
        assert await desk.operations.skip(await desk.ids("a1")) == 1
        assert await desk.drain() == ["a2", "a3"]
        assert (await desk.row("a1")).status == "failed"

    async def test_a_record_that_may_succeed_yet_is_not_skipped(self, desk: Desk) -> None:
        await desk.put("a1", "a2")
        await desk.refuse("a1")
        assert await desk.operations.skip(await desk.ids("a1")) == 0
        assert await desk.open_to_claim() == []

    async def test_to_skip_twice_does_not_skip_the_next_one(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "a3")
        await desk.fail("a1")
        await desk.claim()
        ids = await desk.ids("a1")
        await desk.operations.skip(ids)
        await desk.refuse("a2")
        await desk.operations.skip(ids)
        assert await desk.open_to_claim() == []
        desk.later(2 * MINUTE)
        assert await desk.drain() == ["a2", "a3"]

    async def test_a_skipped_record_can_be_retried_later(self, desk: Desk) -> None:
        await desk.put("a1", "a2")
        await desk.fail("a1")
        await desk.operations.skip(await desk.ids("a1"))
        assert await desk.drain() == ["a2"]
        await desk.operations.retry(await desk.ids("a1"))
        assert await desk.drain() == ["a1"]

    async def test_a_discarded_record_is_gone_and_its_key_goes_on(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "a3", ".1")
        await desk.fail("a1")
        await desk.claim()
        assert await desk.operations.discard(await desk.ids("a1", ".1")) == 2
        assert list(await desk.rows()) == ["a2", "a3"]
        assert await desk.drain() == ["a2", "a3"]

    async def test_to_discard_a_follower_leaves_the_others_in_line(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "a3")
        await desk.fail("a1")
        await desk.claim()
        assert await desk.operations.discard(await desk.ids("a2")) == 1
        assert await desk.open_to_claim() == []
        await desk.operations.retry(await desk.ids("a1"))
        assert await desk.drain() == ["a1", "a3"]

    async def test_the_last_of_a_batch_can_be_discarded(self, desk: Desk) -> None:
        last = BlockedKeys.RELEASED + 10
        await desk.put(*numbered("a", 1, last))
        await desk.refuse("a1", delay=ZERO)
        await desk.claim()
        await desk.deliver("a1")
        gate = f"a{BlockedKeys.RELEASED + 1}"
        assert await desk.gates() == {"a": gate}
        await desk.operations.discard(await desk.ids(gate))
        rest = [name for name in numbered("a", 2, last) if name != gate]
        released = await desk.open_to_claim()
        await desk.deliver(*released)
        assert released + await desk.drain() == rest

    async def test_several_keys_can_be_dealt_with_at_once(self, desk: Desk) -> None:
        await desk.put("a1", "b1", "c1", "a2", "b2", "c2")
        await desk.fail("a1", "b1", "c1")
        await desk.claim()
        assert await desk.operations.skip(await desk.ids("a1", "b1", "c1")) == 3
        assert sorted(await desk.drain()) == ["a2", "b2", "c2"]

    async def test_a_record_on_its_way_can_be_discarded(self, desk: Desk) -> None:
        await desk.put("a1", "a2")
        [record] = await desk.claimed("a1")
        await desk.operations.discard([record.record.id])
        await desk.store.settlements.settle(Settlement(delivered=[record]))
        assert await desk.drain() == ["a2"]

    async def test_to_retry_what_is_on_its_way_does_no_harm(self, desk: Desk) -> None:
        await desk.put("a1", "a2")
        [record] = await desk.claimed("a1")
        await desk.operations.retry([record.record.id])
        await desk.store.settlements.settle(Settlement(attempts=[attempt(record)]))
        assert await desk.open_to_claim() == []
        desk.later(2 * MINUTE)
        assert await desk.drain() == ["a1", "a2"]
