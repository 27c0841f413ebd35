"""What an edit by hand leaves behind, put right."""

from tests.conformance.store.rig import (
    MINUTE,
    ZERO,
    StoreRig,
    numbered,
    partition_of,
)


class Mending:
    """Nothing is stuck for ever."""

    async def test_there_is_nothing_to_mend_in_a_sound_outbox(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "b1", "c1", "c2", ".1")
        await rig.put("d1", ready=False, due_at=rig.now() + MINUTE)
        await rig.refuse("a1")
        await rig.fail("c1")
        await rig.deliver("b1")
        before = await rig.rows(), await rig.gates()
        assert await rig.store.cleaning.repair() == 0
        assert (await rig.rows(), await rig.gates()) == before

    async def test_nothing_is_mended_while_followers_leave(self, rig: StoreRig) -> None:
        await rig.put(*numbered("a", 1, 5))
        await rig.refuse("a1", delay=ZERO)
        await rig.claim()
        await rig.deliver("a1")
        assert await rig.store.cleaning.repair() == 0

    async def test_a_gate_whose_record_was_deleted_is_opened(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "a3")
        await rig.fail("a1")
        await rig.claim()
        await rig.sql("DELETE FROM suite_outbox WHERE event_type = 'a1'")
        assert await rig.store.cleaning.repair() > 0
        assert await rig.drain() == ["a2", "a3"]

    async def test_a_gate_whose_record_was_published_by_hand_is_opened(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "a3")
        await rig.fail("a1")
        await rig.claim()
        await rig.edit("a1", status="published")
        assert await rig.store.cleaning.repair() > 0
        assert await rig.drain() == ["a2", "a3"]

    async def test_a_failed_record_set_to_pending_by_hand_is_tried_again_at_once(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "a2", ".1")
        await rig.fail("a1", ".1")
        await rig.claim()
        for name in ("a1", ".1"):
            await rig.edit(name, status="pending")
        delivered = await rig.drain()
        assert sorted(delivered) == [".1", "a1", "a2"]
        assert delivered.index("a1") < delivered.index("a2")

    async def test_followers_whose_gate_was_deleted_leave_in_order(self, rig: StoreRig) -> None:
        await rig.put(*numbered("a", 1, 5))
        await rig.fail("a1")
        await rig.claim()
        await rig.sql("DELETE FROM suite_outbox_blocked_keys")
        assert await rig.store.cleaning.repair() > 0
        assert await rig.drain() == numbered("a", 2, 5)

    async def test_records_set_aside_by_hand_come_back_in_order(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "a3", ".1", ".2")
        await rig.sql("UPDATE suite_outbox SET ready = false")
        assert await rig.store.cleaning.repair() > 0
        delivered = await rig.drain()
        assert [name for name in delivered if name[0] == "a"] == ["a1", "a2", "a3"]
        assert sorted(delivered) == [".1", ".2", "a1", "a2", "a3"]

    async def test_records_in_a_partition_that_nobody_serves_are_moved(self, rig: StoreRig) -> None:
        await rig.put(".1", partition=64)
        await rig.put(".2", partition=-1)
        await rig.put(".3", partition=32767, ready=False, due_at=rig.now() - MINUTE)
        assert await rig.store.cleaning.repair() == 3
        assert sorted(await rig.drain()) == [".1", ".2", ".3"]

    async def test_records_of_a_key_are_moved_to_the_partition_of_their_key(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "a2", "a3", "b1", partition=-1)
        await rig.store.cleaning.repair()
        found = {name: row.partition for name, row in (await rig.rows()).items()}
        assert found == {name: partition_of(name) for name in ("a1", "a2", "a3", "b1")}

    async def test_what_is_said_to_be_done_by_hand_is_not_delivered(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1", "c1")
        await rig.edit("a1", status="published")
        await rig.edit("b1", status="failed")
        await rig.store.cleaning.repair()
        assert await rig.open_to_claim() == ["c1"]

    async def test_mending_twice_finds_nothing_more(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", ".1", partition=-1)
        await rig.put("b1", "b2", ready=False)
        assert await rig.store.cleaning.repair() > 0
        assert await rig.store.cleaning.repair() == 0
