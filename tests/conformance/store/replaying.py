"""What operators have delivered again, and what they delete for good."""

from uuid import UUID

import pytest
from sqlalchemy import insert, select

from postroom.operations import REPLAY_HEADER, operations
from tests.conformance.store.rig import DAY, MINUTE, ZERO, StoreRig, inbox, numbered


async def replay(rig: StoreRig, *names: str) -> int:
    return await rig.operations.replay(await rig.ids(*names))


async def received(rig: StoreRig) -> set[tuple[str, str]]:
    async with rig.engine.connect() as connection:
        rows = await connection.execute(select(inbox.c.message_id, inbox.c.consumer))
        return {(row.message_id, row.consumer) for row in rows}


@pytest.mark.requirement("E16")
class Replaying:
    """Published records are delivered again, and nothing else changes."""

    async def test_a_replayed_record_is_delivered_again_with_the_replay_in_its_headers(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", headers={"trace": "t1"})
        await rig.refuse("a1", delay=ZERO)
        await rig.deliver("a1")
        assert await replay(rig, "a1") == 1
        row = await rig.row("a1")
        assert (row.status, row.retry_count, row.published_at) == ("pending", 0, None)
        [record] = await rig.claimed("a1")
        assert record.record.headers["trace"] == "t1"
        UUID(record.record.headers[REPLAY_HEADER])
        assert await rig.drain() == ["a1"]
        assert (await rig.row("a1")).published_at is not None

    async def test_each_replay_has_an_id_of_its_own(self, rig: StoreRig) -> None:
        await rig.put("a1")
        ids = set()
        for _ in range(2):
            await rig.deliver("a1")
            await replay(rig, "a1")
            ids.add((await rig.row("a1")).headers[REPLAY_HEADER])
        assert len(ids) == 2

    async def test_replayed_records_of_a_key_leave_in_their_order(
        self, rig: StoreRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(operations, "CHUNK", 2)
        await rig.put(*numbered("a", 1, 7))
        await rig.drain()
        assert await replay(rig, "a5", "a1", "a7", "a2", "a4") == 5
        assert await rig.drain() == ["a1", "a2", "a4", "a5", "a7"]

    async def test_a_replayed_record_of_a_blocked_key_waits_for_the_blocking_one(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "a2", "a3")
        await rig.deliver("a1")
        await rig.fail("a2")
        await replay(rig, "a1")
        assert await rig.open_to_claim() == []
        await rig.operations.retry(await rig.ids("a2"))
        assert await rig.drain() == ["a2", "a1", "a3"]

    async def test_a_replayed_record_behind_a_failed_one_that_is_skipped_or_discarded_leaves(
        self, rig: StoreRig
    ) -> None:
        for key, decide in (("a", rig.operations.skip), ("b", rig.operations.discard)):
            await rig.put(f"{key}1", f"{key}2")
            await rig.deliver(f"{key}1")
            await rig.fail(f"{key}2")
            await replay(rig, f"{key}1")
            assert await rig.open_to_claim() == []
            await decide(await rig.ids(f"{key}2"))
            await rig.put(f"{key}3")
            assert await rig.drain() == [f"{key}1", f"{key}3"]
        assert await rig.gates() == {}

    async def test_a_replayed_record_that_is_refused_blocks_its_key(self, rig: StoreRig) -> None:
        await rig.put("a1")
        await rig.deliver("a1")
        await replay(rig, "a1")
        await rig.put("a2", "b1")
        await rig.refuse("a1")
        assert await rig.open_to_claim() == ["b1"]
        rig.later(2 * MINUTE)
        assert await rig.drain() == ["a1", "b1", "a2"]

    async def test_what_is_not_published_is_not_replayed(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1", "c1")
        await rig.fail("a1")
        await rig.refuse("b1")
        before = await rig.rows()
        assert await replay(rig, "a1", "b1", "c1") == 0
        assert await rig.rows() == before

    async def test_receipts_of_replayed_records_are_deleted_and_no_others(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "b1")
        await rig.deliver("a1", "b1")
        ours, others = map(str, await rig.ids("a1", "b1"))
        receipts = [
            {"message_id": message, "consumer": consumer}
            for message in (ours, others)
            for consumer in ("billing", "mail")
        ]
        async with rig.engine.begin() as connection:
            await connection.execute(insert(inbox), receipts)
        await replay(rig, "a1")
        assert await received(rig) == {(others, "billing"), (others, "mail")}


class Purging:
    """Delivered records are deleted by age."""

    async def test_old_delivered_records_are_purged_and_the_progress_is_told(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "b1", "c1", "d1")
        await rig.deliver("a1", "b1")
        rig.later(2 * DAY)
        await rig.deliver("c1")
        told: list[int] = []
        assert await rig.operations.purge(older_than=DAY, progress=told.append) == 2
        assert list(await rig.rows()) == ["c1", "d1"]
        assert told == [2]

    async def test_refusals_of_purged_and_discarded_records_go_too(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1", "c1")
        for name in ("a1", "b1", "c1"):
            await rig.sql(
                "INSERT INTO suite_outbox_attempts (position, retry_count, verdict, reason, worker,"
                " seconds) VALUES (:position, 1, 'retry', :name, 'ann', 0.1)",
                position=(await rig.row(name)).position,
                name=name,
            )
        await rig.deliver("a1")
        rig.later(2 * DAY)
        await rig.operations.purge(older_than=DAY)
        await rig.operations.discard(await rig.ids("b1"))
        rows = await rig.sql("SELECT reason FROM suite_outbox_attempts")
        assert [row.reason for row in rows] == ["c1"]

    async def test_an_age_is_not_negative(self, rig: StoreRig) -> None:
        with pytest.raises(ValueError, match="older_than is -1 day, 0:00:00"):
            await rig.operations.purge(older_than=-DAY)
