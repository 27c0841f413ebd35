"""Records that an operator has paused."""

import pytest

from postroom.store.base import Settlement
from tests.conformance.store.desk import MINUTE, ZERO, Desk, attempt, names_of


class Pausing:
    """A pause holds records back in their order, and costs no attempt."""

    @pytest.mark.requirement("E16")
    async def test_a_paused_key_waits_and_no_other(self, desk: Desk) -> None:
        await desk.put("a1", "b1", "a2", "b2", ".1")
        await desk.pause(key="a")
        assert await desk.open_to_claim() == ["b1", "b2", ".1"]
        assert await desk.gates() == {"a": "a1"}
        await desk.put("a3")
        assert await desk.drain() == ["b1", ".1", "b2"]

    @pytest.mark.requirement("E16")
    async def test_a_paused_type_waits_with_what_comes_after_it_in_its_key(
        self, desk: Desk
    ) -> None:
        await desk.put("a1", "a2", "a3", "b1", ".1", ".2")
        await desk.pause("a2")
        await desk.pause(".1")
        assert await desk.open_to_claim() == ["a1", "b1", ".2"]
        assert await desk.gates() == {"a": "a2"}

    @pytest.mark.requirement("E16")
    async def test_resumed_records_leave_in_order(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "a3", "b1", ".1")
        for each in ("a2", ".1"):
            await desk.pause(each)
        assert sorted(await desk.drain()) == ["a1", "b1"]
        await desk.put("a4")
        assert await desk.drain() == []
        await desk.resume()
        delivered = await desk.drain()
        assert [name for name in delivered if name != ".1"] == ["a2", "a3", "a4"]
        assert ".1" in delivered
        rows = await desk.rows()
        assert {row.retry_count for row in rows.values()} == {0}
        assert await desk.gates() == {}

    async def test_what_another_pause_holds_stays_where_it_is(self, desk: Desk) -> None:
        await desk.put("a1", "b1")
        await desk.pause("a1")
        await desk.pause(key="b")
        assert await desk.drain() == []
        await desk.operations.resume(event_type="a1")
        assert await desk.drain() == ["a1"]
        await desk.resume()
        assert await desk.drain() == ["b1"]

    async def test_a_repair_leaves_paused_records_alone(self, desk: Desk) -> None:
        await desk.put("a1", ".1")
        await desk.pause("a1")
        await desk.pause(".1")
        assert await desk.drain() == []
        assert await desk.store.repair() == 0

    async def test_a_pause_of_everything_has_nothing_claimed_and_parks_nothing(
        self, desk: Desk
    ) -> None:
        await desk.put("a1", ".1")
        await desk.pause()
        assert await desk.open_to_claim() == []
        assert (await desk.poll()).pauses.everything
        assert [row.ready for row in (await desk.rows()).values()] == [True, True]
        await desk.resume()
        assert not (await desk.poll()).pauses
        assert sorted(await desk.drain()) == [".1", "a1"]

    async def test_a_poll_says_what_is_paused(self, desk: Desk) -> None:
        await desk.put("a1", "b1", "c1")
        a1, b1, c1 = await desk.claimed("a1", "b1", "c1")
        assert not (await desk.poll()).pauses
        await desk.pause("a1")
        await desk.pause(key="b")
        found = (await desk.poll()).pauses
        assert [found.hold(each) for each in (a1, b1, c1)] == [True, True, False]

    async def test_a_failed_record_of_a_paused_key_that_is_retried_waits_too(
        self, desk: Desk
    ) -> None:
        await desk.put("a1", "a2")
        await desk.fail("a1")
        await desk.pause(key="a")
        await desk.operations.retry(await desk.ids("a1"))
        assert await desk.drain() == []
        await desk.resume()
        assert await desk.drain() == ["a1", "a2"]

    async def test_a_record_in_flight_before_a_paused_one_may_still_be_refused(
        self, desk: Desk
    ) -> None:
        await desk.put("a1", "a2", "a3")
        [a1] = await desk.claimed("a1")
        await desk.pause("a2")
        assert names_of((await desk.claim(held=[a1.position])).records) == []
        assert await desk.gates() == {"a": "a2"}
        refused = attempt(a1, delay=ZERO)
        await desk.store.settlements.settle(Settlement(attempts=[refused]))
        assert await desk.gates() == {"a": "a1"}
        assert await desk.drain() == ["a1"]
        assert await desk.gates() == {"a": "a2"}
        await desk.resume()
        assert await desk.drain() == ["a2", "a3"]

    async def test_a_delayed_record_of_a_paused_type_waits_when_its_time_comes(
        self, desk: Desk
    ) -> None:
        await desk.put("a1", ready=False, due_at=desk.now() + MINUTE)
        await desk.pause("a1")
        assert await desk.drain() == []
        desk.later(2 * MINUTE)
        assert await desk.drain() == []
        await desk.resume()
        assert await desk.drain() == ["a1"]
