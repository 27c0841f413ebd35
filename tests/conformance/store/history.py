"""The history of a record: its last refusals."""

import pytest

from postroom.store.base import Attempt, Settlement, Verdict
from tests.conformance.store.rig import MINUTE, ZERO, StoreRig, attempt


class History:
    """Refusals are kept; what is delivered at once leaves no trace."""

    @pytest.mark.requirement("E16")
    async def test_every_refusal_is_kept_with_its_worker_error_and_duration(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", ".1")
        [a1] = await rig.claimed("a1")
        a1.seconds = 1.5
        refused = attempt(a1, delay=ZERO, reason="card expired")
        await rig.store.settlements.settle(Settlement(worker="ann", attempts=[refused]))
        await rig.refuse("a1", delay=None, reason="card\0stolen")
        first, second = await rig.history("a1")
        assert (first.reason, first.verdict, first.worker) == ("card expired", "retry", "ann")
        assert (first.retry_count, first.seconds) == (1, 1.5)
        assert (second.reason, second.verdict, second.retry_count) == (
            *("card\ufffdstolen", "failed"),
            2,
        )
        assert first.attempted_at <= second.attempted_at
        assert await rig.history(".1") == []

    @pytest.mark.requirement("E16")
    async def test_the_last_ten_are_kept(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1")
        await rig.refuse("b1", delay=ZERO)
        for number in range(12):
            await rig.refuse("a1", delay=ZERO, reason=f"no {number}")
        assert [row.reason for row in await rig.history("a1")] == [
            f"no {number}" for number in range(2, 12)
        ]
        assert len(await rig.history("b1")) == 1

    async def test_what_was_not_tried_or_is_nobody_s_fault_is_no_refusal(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "b1")
        a1, b1 = await rig.claimed("a1", "b1")
        postponed = Attempt(
            record=a1, verdict=Verdict.POSTPONED, reason="full", retry_count=0, delay=MINUTE
        )
        at_limit = attempt(b1, delay=None, reason=None)
        await rig.store.settlements.settle(Settlement(attempts=[postponed, at_limit]))
        assert [await rig.history(name) for name in ("a1", "b1")] == [[], []]

    async def test_a_refusal_of_a_lost_lease_is_not_kept(self, rig: StoreRig) -> None:
        await rig.put("a1")
        [a1] = await rig.claimed("a1")
        await rig.sql("UPDATE suite_outbox_leases SET token = token + 1")
        await rig.store.settlements.settle(Settlement(attempts=[attempt(a1)]))
        assert await rig.history("a1") == []

    async def test_the_history_stays_with_a_delivered_record_and_goes_with_it(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "b1")
        await rig.refuse("a1", "b1", delay=ZERO)
        await rig.deliver("a1", "b1")
        assert len(await rig.history("a1")) == 1
        await rig.sql("DELETE FROM suite_outbox WHERE event_type = 'b1'")
        await rig.store.cleaning.repair()
        [[left]] = await rig.sql("SELECT count(*) FROM suite_outbox_attempts")
        assert left == 1

    async def test_where_delivered_records_are_not_kept_neither_is_their_history(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1")
        await rig.refuse("a1", delay=ZERO)
        rig.store = rig.another_store(keep_delivered=False)
        await rig.deliver("a1")
        [[left]] = await rig.sql("SELECT count(*) FROM suite_outbox_attempts")
        assert left == 0
