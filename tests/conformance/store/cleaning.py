"""What was delivered long ago is deleted."""

from datetime import timedelta

import pytest
from sqlalchemy import insert

from tests.conformance.store.rig import DAY, StoreRig, inbox, numbered

WEEK = timedelta(days=7)


async def clean(rig: StoreRig, older_than: timedelta = WEEK, limit: int = 3) -> int:
    """Clean up, a whole round; give how many are gone."""
    deleted = 0
    after: int | None = 0
    while after is not None:
        cleaned = await rig.store.cleaning.clean(older_than=older_than, after=after, limit=limit)
        deleted, after = deleted + cleaned.deleted, cleaned.last
    return deleted


class Cleaning:
    """Retention."""

    @pytest.mark.requirement("C14")
    async def test_what_was_delivered_before_the_retention_is_deleted(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1")
        await rig.deliver("a1", "b1")
        rig.later(WEEK - DAY)
        assert await clean(rig) == 0
        rig.later(2 * DAY)
        assert await clean(rig) == 2
        assert await rig.rows() == {}

    @pytest.mark.requirement("C14")
    async def test_what_is_pending_failed_or_young_stays(self, rig: StoreRig) -> None:
        await rig.put("old1", "failed1", "failed2", "waiting1", "ready1", "late1")
        await rig.put("delayed1", ready=False, due_at=rig.now() + 100 * WEEK)
        await rig.deliver("old1")
        await rig.fail("failed1")
        await rig.refuse("waiting1", delay=100 * WEEK)
        rig.later(8 * DAY)
        await rig.deliver("late1")
        assert await clean(rig) == 1
        kept = {"failed1", "failed2", "waiting1", "delayed1", "ready1", "late1"}
        assert set(await rig.rows()) == kept

    async def test_what_was_delivered_late_behind_what_is_young_goes_in_its_time(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1")
        rig.later(8 * DAY)
        await rig.put("b1", created_at=rig.now())
        await rig.deliver("a1", "b1")
        assert await clean(rig) == 0
        rig.later(8 * DAY)
        assert await clean(rig) == 2

    async def test_it_is_deleted_in_batches_the_oldest_first(self, rig: StoreRig) -> None:
        await rig.put(*numbered("a", 1, 10))
        await rig.deliver(*numbered("a", 1, 10))
        rig.later(2 * DAY)
        first = await rig.store.cleaning.clean(older_than=DAY, limit=4)
        assert (first.deleted, list(await rig.rows())) == (4, numbered("a", 5, 10))
        assert first.last is not None
        second = await rig.store.cleaning.clean(older_than=DAY, after=first.last, limit=100)
        assert (second.deleted, second.last) == (6, None)

    async def test_a_round_passes_what_has_to_stay(self, rig: StoreRig) -> None:
        await rig.put(*numbered("a", 1, 5), *numbered("b", 1, 5))
        await rig.deliver("b2", "b5")
        rig.later(8 * DAY)
        assert await clean(rig, limit=2) == 2
        assert await clean(rig, limit=2) == 0

    async def test_everything_old_goes_when_nothing_is_young(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1", "c1")
        await rig.deliver("a1", "c1")
        rig.later(WEEK)
        assert await clean(rig, timedelta()) == 2

    async def test_an_empty_outbox_is_clean(self, rig: StoreRig) -> None:
        assert await clean(rig) == 0

    async def test_workers_that_are_long_gone_are_forgotten(self, rig: StoreRig) -> None:
        await rig.poll("ann")
        rig.later(2 * DAY)
        await rig.poll("bob")
        await clean(rig)
        found = await rig.sql("SELECT worker FROM suite_outbox_workers")
        assert {row.worker for row in found} <= {"bob"}

    @pytest.mark.requirement("E3")
    async def test_a_receipt_stays_for_thirty_days_however_short_the_retention(
        self, rig: StoreRig
    ) -> None:
        async with rig.engine.begin() as connection:
            await connection.execute(insert(inbox), {"message_id": "1", "consumer": "billing"})
        rig.later(29 * DAY)
        await clean(rig, older_than=DAY)
        assert await rig.sql("SELECT 1 FROM suite_outbox_inbox")
        rig.later(2 * DAY)
        await clean(rig, older_than=DAY)
        assert not await rig.sql("SELECT 1 FROM suite_outbox_inbox")
