"""Records that wait for another one of their key."""

import pytest

from postroom.store.base import Settlement
from postroom.store.blocked_keys import BlockedKeys
from tests.conformance.store.desk import (
    LEASE,
    MINUTE,
    ZERO,
    Desk,
    attempt,
    names_of,
    numbered,
    of_key,
    partition_of,
)
from tests.support.statements import noted_statements


class Waiting:
    """Blocked keys: what comes after a refused or slow record stays in line."""

    async def test_a_refused_record_holds_back_its_own_key_and_no_other(self, desk: Desk) -> None:
        await desk.put("a1", "b1", "a2", "b2", ".1", ".2")
        await desk.refuse("a1")
        assert await desk.open_to_claim() == ["b1", "b2", ".1", ".2"]
        assert await desk.gates() == {"a": "a1"}

    async def test_a_record_without_a_key_holds_nobody(self, desk: Desk) -> None:
        await desk.put(".1", ".2", "a1", partition=9)
        await desk.refuse(".1")
        assert await desk.open_to_claim() == [".2", "a1"]
        assert await desk.gates() == {}

    async def test_another_aggregate_type_is_another_key(self, desk: Desk) -> None:
        for name, kind in (("a1", "order"), ("a2", "invoice"), ("a3", None), ("a4", "order")):
            await desk.put(name, aggregate_type=kind, partition=9)
        await desk.refuse("a1")
        assert await desk.open_to_claim() == ["a2", "a3"]

    async def test_aggregates_without_a_type_have_one_key_with_those_of_the_type_empty(
        self, desk: Desk
    ) -> None:
        await desk.put("a1", aggregate_type=None, partition=9)
        await desk.put("a2", aggregate_type="", partition=9)
        await desk.put("a3", aggregate_type=None, partition=9)
        await desk.refuse("a1")
        assert await desk.open_to_claim() == []
        desk.later(2 * MINUTE)
        assert await desk.drain() == ["a1", "a2", "a3"]

    async def test_an_empty_id_is_a_key_too(self, desk: Desk) -> None:
        await desk.put("a1", "a2", aggregate_id="", partition=9)
        await desk.refuse("a1")
        assert await desk.open_to_claim() == []

    async def test_keys_are_told_apart_to_the_letter(self, desk: Desk) -> None:
        keys = ["1", "01", "1.0", "A", "a", "a ", "ä", "a\u0308", "null", "'", '"', "\\", "%"]
        for number, key in enumerate(keys):
            await desk.put(f"{number}", f"{number}", aggregate_id=key, partition=9)
        claimed = (await desk.claim()).records
        assert len(claimed) == 2 * len(keys)
        await desk.store.settlements.settle(Settlement(attempts=[attempt(claimed[0])]))
        claim = await desk.claim()
        assert {each.record.aggregate_id for each in claim.records} == set(keys[1:])

    async def test_followers_are_parked_once(self, desk: Desk) -> None:
        await desk.put(*numbered("a", 1, 5))
        await desk.refuse("a1")
        claim = await desk.claim()
        assert (claim.records, set(claim.more)) == ((), {partition_of("a1")})
        with noted_statements() as sent:
            claim = await desk.store.claims.claim({partition_of("a1"): 1}, depth=10)
        assert (claim.records, set(claim.more), len(sent)) == ((), set(), 1)
        assert (await desk.poll()).leases == ()

    async def test_followers_are_parked_far_ahead(self, desk: Desk) -> None:
        await desk.put("a1", *numbered("a", 2, 60), "b1", partition=9)
        await desk.refuse("a1")
        await desk.claim(depth=1)
        assert BlockedKeys.AHEAD > 60
        assert await desk.open_to_claim(depth=1) == ["b1"]

    async def test_what_other_keys_have_ready_is_not_parked_with_them(self, desk: Desk) -> None:
        names = ["a1", "b1", "a2", "b2", "a3", ".1", "a4", "b3"]
        await desk.put(*names, partition=9)
        await desk.refuse("a1")
        await desk.claim(depth=1)
        assert await desk.open_to_claim(depth=2) in (["b1"], ["b1", "b2"])
        assert await desk.open_to_claim() == ["b1", "b2", ".1", "b3"]

    async def test_the_record_itself_comes_back_when_it_is_due(self, desk: Desk) -> None:
        await desk.put("a1", "a2")
        await desk.refuse("a1")
        desk.later(2 * MINUTE)
        claim = await desk.claim()
        assert [(each.record.event_type, each.blocks_key) for each in claim.records] == [
            ("a1", True)
        ]

    async def test_followers_leave_in_order_once_it_is_through(self, desk: Desk) -> None:
        await desk.put(*numbered("a", 1, 6))
        await desk.refuse("a1")
        await desk.claim()
        desk.later(2 * MINUTE)
        assert await desk.drain() == numbered("a", 1, 6)
        assert await desk.gates() == {}

    async def test_followers_leave_in_batches(self, desk: Desk) -> None:
        last = 2 * BlockedKeys.RELEASED + 10
        await desk.put(*numbered("a", 1, last))
        await desk.refuse("a1", delay=ZERO)
        await desk.claim()
        await desk.deliver("a1")
        assert await desk.open_to_claim() == numbered("a", 2, BlockedKeys.RELEASED + 1)
        await desk.deliver(*numbered("a", 2, BlockedKeys.RELEASED + 1))
        assert await desk.open_to_claim() == numbered(
            "a", BlockedKeys.RELEASED + 2, 2 * BlockedKeys.RELEASED + 1
        )
        await desk.deliver(*numbered("a", BlockedKeys.RELEASED + 2, 2 * BlockedKeys.RELEASED + 1))
        assert await desk.open_to_claim() == numbered("a", 2 * BlockedKeys.RELEASED + 2, last)

    async def test_what_is_new_never_overtakes_what_waits(self, desk: Desk) -> None:
        await desk.put(*numbered("a", 1, BlockedKeys.RELEASED + 20))
        await desk.refuse("a1", delay=ZERO)
        await desk.claim()
        delivered: list[str] = []
        for number in range(30):
            await desk.put(f"a{BlockedKeys.RELEASED + 21 + number}")
            claim = await desk.claim(depth=7)
            await desk.store.settlements.settle(Settlement(delivered=list(claim.records)))
            delivered += names_of(claim.records)
        delivered += await desk.drain()
        assert delivered == numbered("a", 1, BlockedKeys.RELEASED + 50)

    async def test_a_record_refused_among_the_followers_holds_back_the_rest(
        self, desk: Desk
    ) -> None:
        await desk.put(*numbered("a", 1, 6))
        await desk.refuse("a1", delay=ZERO)
        await desk.claim()
        await desk.deliver("a1")
        await desk.deliver("a2")
        await desk.refuse("a3")
        assert await desk.open_to_claim() == []
        desk.later(2 * MINUTE)
        assert await desk.drain() == numbered("a", 3, 6)

    async def test_a_record_can_be_refused_many_times(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "a3")
        for count in range(1, 6):
            await desk.refuse("a1")
            assert (await desk.row("a1")).retry_count == count
            assert await desk.open_to_claim() == []
            desk.later(2 * MINUTE)
        assert await desk.drain() == ["a1", "a2", "a3"]

    async def test_a_delayed_record_waits_behind_the_gate_of_its_key(self, desk: Desk) -> None:
        await desk.put("a1")
        await desk.put("a2", ready=False, due_at=desk.now() + MINUTE)
        await desk.put("a3")
        await desk.refuse("a1", delay=5 * MINUTE)
        desk.later(2 * MINUTE)
        assert await desk.open_to_claim() == []
        desk.later(4 * MINUTE)
        assert await desk.drain() == ["a1", "a2", "a3"]

    async def test_an_older_delayed_record_waits_behind_the_gate_too(self, desk: Desk) -> None:
        await desk.put("a1", ready=False, due_at=desk.now() + MINUTE)
        await desk.put("a2", "a3")
        await desk.refuse("a2", delay=5 * MINUTE)
        desk.later(2 * MINUTE)
        assert await desk.open_to_claim() == []
        desk.later(4 * MINUTE)
        assert sorted(await desk.drain()) == ["a1", "a2", "a3"]

    async def test_a_delayed_record_that_is_not_due_holds_nobody(self, desk: Desk) -> None:
        await desk.put("a1", ready=False, due_at=desk.now() + MINUTE)
        await desk.put("a2", "a3")
        assert await desk.drain() == ["a2", "a3"]
        desk.later(2 * MINUTE)
        assert await desk.drain() == ["a1"]

    async def test_a_slow_record_holds_back_its_key_and_may_be_claimed_again(
        self, desk: Desk
    ) -> None:
        await desk.put("a1", "a2", "a3", "b1")
        [slow] = await desk.claimed("a1")
        await desk.store.settlements.settle(Settlement(slow=[slow]))
        assert await desk.open_to_claim(held=[slow.position]) == ["b1"]
        desk.later(2 * LEASE)  # and its worker died
        claim = await desk.claim("bob")
        assert [(each.record.event_type, each.blocks_key) for each in claim.records] == [
            ("a1", True),
            ("b1", False),
        ]

    async def test_a_slow_record_that_arrives_lets_the_rest_go(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "a3")
        [slow] = await desk.claimed("a1")
        await desk.store.settlements.settle(Settlement(slow=[slow]))
        await desk.claim(held=[slow.position])
        slow.blocks_key = True
        await desk.store.settlements.settle(Settlement(delivered=[slow]))
        assert await desk.drain() == ["a2", "a3"]

    async def test_a_slow_record_that_is_refused_goes_on_holding_its_key(self, desk: Desk) -> None:
        await desk.put("a1", "a2")
        [slow] = await desk.claimed("a1")
        await desk.store.settlements.settle(Settlement(slow=[slow]))
        slow.blocks_key = True
        await desk.store.settlements.settle(Settlement(attempts=[attempt(slow)]))
        assert await desk.open_to_claim() == []
        desk.later(2 * MINUTE)
        assert await desk.drain() == ["a1", "a2"]

    async def test_a_record_without_a_key_can_be_slow(self, desk: Desk) -> None:
        await desk.put(".1", ".2")
        await desk.store.settlements.settle(Settlement(slow=await desk.claimed(".1")))
        assert await desk.gates() == {}

    async def test_hundreds_of_keys_can_be_blocked_at_once(self, desk: Desk) -> None:
        keys = [f"k{number}-" for number in range(300)]
        await desk.put(*(f"{key}1" for key in keys), *(f"{key}2" for key in keys))
        await desk.refuse(*(f"{key}1" for key in keys))
        assert await desk.open_to_claim() == []
        desk.later(2 * MINUTE)
        delivered = await desk.drain()
        for key in keys:
            assert of_key(delivered, key) == [f"{key}1", f"{key}2"]

    @pytest.mark.requirement("C16")
    async def test_one_settlement_can_do_everything_at_once(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2", ".1", ".2")
        await desk.refuse("a1", delay=ZERO)
        await desk.claim()
        a1, b1, c1, d1, dot = await desk.claimed("a1", "b1", "c1", "d1", ".1")
        await desk.store.settlements.settle(
            Settlement(
                delivered=[a1, dot],
                attempts=[attempt(b1), attempt(c1, delay=None, holds=False)],
                slow=[d1],
            )
        )
        assert await desk.open_to_claim(held=[d1.position]) == ["a2", "c2", ".2"]
        assert await desk.gates() == {"a": "a2", "b": "b1", "d": "d1"}
