"""A position that is given out again, by a failover or a restore, belongs to another record."""

from datetime import timedelta

import pytest
from sqlalchemy import delete

from postroom.store.base import HeldRecord, Settlement
from tests.conformance.store.rig import (
    MINUTE,
    ZERO,
    StoreRig,
    attempt,
    attempts,
    blocked_keys,
    leases,
    records,
)
from tests.conformance.store.settling import everything


async def replace(rig: StoreRig, old: str, new: str, **values: object) -> None:
    """Put another record, of another key, where one was; nothing else is left of the old one."""
    position = (await rig.row(old)).position
    async with rig.engine.begin() as connection:
        await connection.execute(delete(records).where(records.c.event_type == old))
        await connection.execute(delete(attempts).where(attempts.c.position == position))
        await connection.execute(delete(blocked_keys).where(blocked_keys.c.position == position))
    await rig.put(new, position=position, **values)


async def replaced(rig: StoreRig, *, refused: bool = False) -> HeldRecord:
    """Claim a1, a2 behind it; put x1 and x2 in their place. Give a1 as it was claimed."""
    await rig.put("a1", "a2")
    if refused:
        await rig.refuse("a1", delay=ZERO)
    [held] = await rig.claimed("a1")
    await replace(rig, "a1", "x1")
    await replace(rig, "a2", "x2")
    return held


async def drained(rig: StoreRig) -> list[str]:
    """Deliver everything; an hour passes before, so that nothing waits for its time."""
    rig.later(timedelta(hours=1))
    return await rig.drain()


class Identity:
    """What was claimed before is settled by position and id: the new records stay as they are."""

    @pytest.mark.requirement("E18")
    @pytest.mark.parametrize("refused", [False, True])
    @pytest.mark.parametrize("kept", [True, False], ids=["kept", "deleted"])
    async def test_a_delivery_marks_no_other_record_at_its_position(
        self, rig: StoreRig, refused: bool, kept: bool
    ) -> None:
        held = await replaced(rig, refused=refused)
        before = await everything(rig)
        store = rig.another_store(keep_delivered=kept)
        await store.settlements.settle(Settlement(delivered=[held]))
        assert await everything(rig) == before
        assert await drained(rig) == ["x1", "x2"]

    @pytest.mark.requirement("E18")
    @pytest.mark.parametrize("delay", [ZERO, MINUTE, None], ids=["at once", "retry", "failed"])
    @pytest.mark.parametrize("holds", [True, False])
    async def test_a_refusal_changes_no_other_record_at_its_position(
        self, rig: StoreRig, delay: timedelta | None, holds: bool
    ) -> None:
        held = await replaced(rig)
        before = await everything(rig)
        refused = attempt(held, delay=delay, holds=holds)
        await rig.store.settlements.settle(Settlement(worker="ann", attempts=[refused]))
        assert await everything(rig) == before
        assert await rig.history("x1") == []
        assert await drained(rig) == ["x1", "x2"]

    async def test_a_refusal_of_a_record_that_is_not_kept_leaves_the_history_of_another(
        self, rig: StoreRig
    ) -> None:
        held = await replaced(rig, refused=True)
        await rig.refuse("x1", delay=MINUTE)
        store = rig.another_store(keep_delivered=False)
        await store.settlements.settle(Settlement(delivered=[held]))
        assert [each.reason for each in await rig.history("x1")] == ["no"]

    async def test_a_slow_record_blocks_its_key_by_no_other_record_at_its_position(
        self, rig: StoreRig
    ) -> None:
        held = await replaced(rig)
        await rig.put("a3", "a4")
        await rig.store.settlements.settle(Settlement(slow=[held]))
        assert await rig.gates() == {}
        assert sorted(await rig.drain()) == ["a3", "a4", "x1", "x2"]

    async def test_a_refusal_blocks_its_key_by_no_other_record_at_its_position(
        self, rig: StoreRig
    ) -> None:
        held = await replaced(rig)
        await rig.put("a3", "a4")
        await rig.store.settlements.settle(Settlement(attempts=[attempt(held, delay=None)]))
        assert await rig.gates() == {}
        assert sorted(await rig.drain()) == ["a3", "a4", "x1", "x2"]

    async def test_a_refusal_that_holds_nobody_releases_nothing_behind_another_record(
        self, rig: StoreRig
    ) -> None:
        """The key of the old record is blocked in the new database, by a record of its own."""
        await rig.put("a1", "b1", "b2")
        [a1] = await rig.claimed("a1")
        await rig.refuse("b1", delay=None)
        await rig.claim()
        blocker = await rig.row("b1")
        moved = HeldRecord(
            a1.record._replace(
                position=blocker.position, aggregate_id="b", partition=blocker.partition
            ),
            a1.token,
            id_=a1.id,
        )
        before = await everything(rig)
        passing = attempt(moved, delay=None, holds=False)
        await rig.store.settlements.settle(Settlement(attempts=[passing]))
        assert await everything(rig) == before

    async def test_a_follower_is_parked_as_itself_and_not_as_what_is_at_its_position(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "a2", "a3")
        [a3] = await rig.claimed("a3")
        await rig.fail("a1")
        due = rig.now() + MINUTE
        await replace(rig, "a3", "x1", ready=False, due_at=due)
        async with rig.store.database.transaction() as run:
            await rig.store.blocked_keys.park(run, [a3])
        assert (await rig.row("x1")).due_at is not None
        assert await drained(rig) == ["x1"]

    @pytest.mark.parametrize("delay", [MINUTE, None], ids=["retry", "failed"])
    async def test_a_lease_of_another_worker_that_has_the_same_token_is_not_ones_own(
        self, rig: StoreRig, delay: timedelta | None
    ) -> None:
        """Tokens are given out again, too."""
        await rig.put("a1", "a2", "b1")
        a1, b1 = await rig.claimed("a1", "b1", worker="ann")
        await rig.sql("UPDATE suite_outbox_leases SET worker = 'bob'")
        before = await everything(rig)
        await rig.store.settlements.settle(
            Settlement(worker="ann", attempts=[attempt(a1, delay=delay)], slow=[b1])
        )
        assert await everything(rig) == before

    async def test_a_suspect_is_a_record_and_not_a_position(self, rig: StoreRig) -> None:
        await rig.put("a1")
        [a1] = await rig.claimed("a1")
        assert await rig.store.leases.suspect("ann", {a1: 2}) == [a1]
        row = await rig.row("a1")
        async with rig.engine.connect() as connection:
            written = leases.select().where(leases.c.partition == row.partition)
            [lease] = (await connection.execute(written)).all()
        assert str(lease.suspect).replace("-", "") == str(row.id).replace("-", "")


class ChosenBefore:
    """What an operator chose is changed by id; a record that took its position is not."""

    @pytest.mark.parametrize("action", ["retry", "skip", "discard", "replay"])
    async def test_what_was_chosen_before_changes_no_other_record_at_its_position(
        self, rig: StoreRig, action: str
    ) -> None:
        await rig.put("a1", "a2")
        chosen = await rig.ids("a1")
        if action == "replay":
            await rig.deliver("a1")
            await replace(rig, "a1", "x1", ready=False, status="published")
        else:
            await rig.fail("a1")
            await replace(rig, "a1", "x1")
            await rig.fail("x1")
        before = await everything(rig)
        assert await getattr(rig.operations, action)(chosen) == 0
        assert await everything(rig) == before
