"""Records that an operator has paused."""

import pytest

from postroom.store.base import Settlement
from tests.conformance.store.rig import MINUTE, ZERO, StoreRig, attempt, names_of, partition_of


class Pausing:
    """A pause holds records back in their order, and costs no attempt."""

    @pytest.mark.requirement("E16")
    async def test_a_paused_key_waits_and_no_other(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1", "a2", "b2", ".1")
        await rig.pause(key="a")
        assert await rig.open_to_claim() == ["b1", "b2", ".1"]
        assert await rig.gates() == {"a": "a1"}
        await rig.put("a3")
        assert await rig.drain() == ["b1", ".1", "b2"]

    @pytest.mark.requirement("E16")
    async def test_a_paused_type_waits_with_what_comes_after_it_in_its_key(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "a2", "a3", "b1", ".1", ".2")
        await rig.pause("a2")
        await rig.pause(".1")
        assert await rig.open_to_claim() == ["a1", "b1", ".2"]
        assert await rig.gates() == {"a": "a2"}

    @pytest.mark.requirement("E16")
    async def test_resumed_records_leave_in_order(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "a3", "b1", ".1")
        for each in ("a2", ".1"):
            await rig.pause(each)
        assert sorted(await rig.drain()) == ["a1", "b1"]
        await rig.put("a4")
        assert await rig.drain() == []
        await rig.resume()
        delivered = await rig.drain()
        assert [name for name in delivered if name != ".1"] == ["a2", "a3", "a4"]
        assert ".1" in delivered
        rows = await rig.rows()
        assert {row.retry_count for row in rows.values()} == {0}
        assert await rig.gates() == {}

    async def test_what_another_pause_holds_stays_where_it_is(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1")
        await rig.pause("a1")
        await rig.pause(key="b")
        assert await rig.drain() == []
        await rig.operations.resume(event_type="a1")
        assert await rig.drain() == ["a1"]
        await rig.resume()
        assert await rig.drain() == ["b1"]

    async def test_a_repair_leaves_paused_records_alone(self, rig: StoreRig) -> None:
        await rig.put("a1", ".1")
        await rig.pause("a1")
        await rig.pause(".1")
        assert await rig.drain() == []
        assert await rig.store.cleaning.repair() == 0

    async def test_a_pause_of_everything_has_nothing_claimed_and_parks_nothing(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", ".1")
        await rig.pause()
        place = partition_of("a1")
        assert await rig.open_to_claim() == []
        claim = await rig.store.claims.claim({place: 1}, depth=10)
        assert (claim.records, claim.reached) == ((), {place: 0})  # all is to be read again
        assert (await rig.poll()).pauses.everything
        assert [row.ready for row in (await rig.rows()).values()] == [True, True]
        await rig.resume()
        assert not (await rig.poll()).pauses
        assert sorted(await rig.drain()) == [".1", "a1"]

    async def test_a_poll_says_what_is_paused(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1", "c1")
        a1, b1, c1 = await rig.claimed("a1", "b1", "c1")
        assert not (await rig.poll()).pauses
        await rig.pause("a1")
        await rig.pause(key="b")
        found = (await rig.poll()).pauses
        assert [found.hold(each) for each in (a1, b1, c1)] == [True, True, False]

    async def test_a_failed_record_of_a_paused_key_that_is_retried_waits_too(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "a2")
        await rig.fail("a1")
        await rig.pause(key="a")
        await rig.operations.retry(await rig.ids("a1"))
        assert await rig.drain() == []
        await rig.resume()
        assert await rig.drain() == ["a1", "a2"]

    async def test_a_record_in_flight_before_a_paused_one_may_still_be_refused(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "a2", "a3")
        [a1] = await rig.claimed("a1")
        await rig.pause("a2")
        assert names_of((await rig.claim(held=[a1])).records) == []
        assert await rig.gates() == {"a": "a2"}
        refused = attempt(a1, delay=ZERO)
        await rig.store.settlements.settle(Settlement(attempts=[refused]))
        assert await rig.gates() == {"a": "a1"}
        assert await rig.drain() == ["a1"]
        assert await rig.gates() == {"a": "a2"}
        await rig.resume()
        assert await rig.drain() == ["a2", "a3"]

    async def test_a_delayed_record_of_a_paused_type_waits_when_its_time_comes(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", ready=False, due_at=rig.now() + MINUTE)
        await rig.pause("a1")
        assert await rig.drain() == []
        rig.later(2 * MINUTE)
        assert await rig.drain() == []
        await rig.resume()
        assert await rig.drain() == ["a1"]
