"""What an edit by hand leaves behind, put right."""

from tests.conformance.store.desk import (
    MINUTE,
    ZERO,
    Desk,
    numbered,
    partition_of,
)


class Mending:
    """Nothing is stuck for ever."""

    async def test_there_is_nothing_to_mend_in_a_sound_outbox(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "b1", "c1", "c2", ".1")
        await desk.put("d1", ready=False, due_at=desk.now() + MINUTE)
        await desk.refuse("a1")
        await desk.fail("c1")
        await desk.deliver("b1")
        before = await desk.rows(), await desk.gates()
        assert await desk.store.repair() == 0
        assert (await desk.rows(), await desk.gates()) == before

    async def test_nothing_is_mended_while_followers_leave(self, desk: Desk) -> None:
        await desk.put(*numbered("a", 1, 5))
        await desk.refuse("a1", delay=ZERO)
        await desk.claim()
        await desk.deliver("a1")
        assert await desk.store.repair() == 0

    async def test_a_gate_whose_record_was_deleted_is_opened(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "a3")
        await desk.fail("a1")
        await desk.claim()
        await desk.sql("DELETE FROM suite_outbox WHERE event_type = 'a1'")
        assert await desk.store.repair() > 0
        assert await desk.drain() == ["a2", "a3"]

    async def test_a_gate_whose_record_was_published_by_hand_is_opened(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "a3")
        await desk.fail("a1")
        await desk.claim()
        await desk.edit("a1", status="published")
        assert await desk.store.repair() > 0
        assert await desk.drain() == ["a2", "a3"]

    async def test_a_failed_record_set_to_pending_by_hand_is_tried_again(self, desk: Desk) -> None:
        await desk.put("a1", "a2", ".1")
        await desk.fail("a1", ".1")
        await desk.claim()
        for name in ("a1", ".1"):
            await desk.edit(name, status="pending")
        assert await desk.store.repair() > 0
        delivered = await desk.drain()
        assert sorted(delivered) == [".1", "a1", "a2"]
        assert delivered.index("a1") < delivered.index("a2")

    async def test_followers_whose_gate_was_deleted_leave_in_order(self, desk: Desk) -> None:
        await desk.put(*numbered("a", 1, 5))
        await desk.fail("a1")
        await desk.claim()
        await desk.sql("DELETE FROM suite_outbox_blocked_keys")
        assert await desk.store.repair() > 0
        assert await desk.drain() == numbered("a", 2, 5)

    async def test_records_set_aside_by_hand_come_back_in_order(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "a3", ".1", ".2")
        await desk.sql("UPDATE suite_outbox SET ready = false")
        assert await desk.store.repair() > 0
        delivered = await desk.drain()
        assert [name for name in delivered if name[0] == "a"] == ["a1", "a2", "a3"]
        assert sorted(delivered) == [".1", ".2", "a1", "a2", "a3"]

    async def test_records_in_a_partition_that_nobody_serves_are_moved(self, desk: Desk) -> None:
        await desk.put(".1", partition=64)
        await desk.put(".2", partition=-1)
        await desk.put(".3", partition=32767, ready=False, due_at=desk.now() - MINUTE)
        assert await desk.store.repair() == 3
        assert sorted(await desk.drain()) == [".1", ".2", ".3"]

    async def test_records_of_a_key_are_moved_to_the_partition_of_their_key(
        self, desk: Desk
    ) -> None:
        await desk.put("a1", "a2", "a3", "b1", partition=-1)
        await desk.store.repair()
        found = {name: row.partition for name, row in (await desk.rows()).items()}
        assert found == {name: partition_of(name) for name in ("a1", "a2", "a3", "b1")}

    async def test_what_is_said_to_be_done_by_hand_is_not_delivered(self, desk: Desk) -> None:
        await desk.put("a1", "b1", "c1")
        await desk.edit("a1", status="published")
        await desk.edit("b1", status="failed")
        await desk.store.repair()
        assert await desk.open_to_claim() == ["c1"]

    async def test_mending_twice_finds_nothing_more(self, desk: Desk) -> None:
        await desk.put("a1", "a2", ".1", partition=-1)
        await desk.put("b1", "b2", ready=False)
        assert await desk.store.repair() > 0
        assert await desk.store.repair() == 0
