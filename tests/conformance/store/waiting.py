"""Records that wait for another one of their key."""

import pytest

from postroom.store.base import Settlement
from postroom.store.blocked_keys import BlockedKeys
from tests.conformance.store.rig import (
    LEASE,
    MINUTE,
    ZERO,
    StoreRig,
    attempt,
    names_of,
    numbered,
    of_key,
    partition_of,
)
from tests.support.statements import noted_statements


class Waiting:
    """Blocked keys: what comes after a refused or slow record stays in line."""

    async def test_a_refused_record_holds_back_its_own_key_and_no_other(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "b1", "a2", "b2", ".1", ".2")
        await rig.refuse("a1")
        assert await rig.open_to_claim() == ["b1", "b2", ".1", ".2"]
        assert await rig.gates() == {"a": "a1"}

    async def test_a_record_without_a_key_holds_nobody(self, rig: StoreRig) -> None:
        await rig.put(".1", ".2", "a1", partition=9)
        await rig.refuse(".1")
        assert await rig.open_to_claim() == [".2", "a1"]
        assert await rig.gates() == {}

    async def test_another_aggregate_type_is_another_key(self, rig: StoreRig) -> None:
        for name, kind in (("a1", "order"), ("a2", "invoice"), ("a3", None), ("a4", "order")):
            await rig.put(name, aggregate_type=kind, partition=9)
        await rig.refuse("a1")
        assert await rig.open_to_claim() == ["a2", "a3"]

    async def test_aggregates_without_a_type_have_one_key_with_those_of_the_type_empty(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", aggregate_type=None, partition=9)
        await rig.put("a2", aggregate_type="", partition=9)
        await rig.put("a3", aggregate_type=None, partition=9)
        await rig.refuse("a1")
        assert await rig.open_to_claim() == []
        rig.later(2 * MINUTE)
        assert await rig.drain() == ["a1", "a2", "a3"]

    async def test_an_empty_id_is_a_key_too(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", aggregate_id="", partition=9)
        await rig.refuse("a1")
        assert await rig.open_to_claim() == []

    async def test_keys_are_told_apart_to_the_letter(self, rig: StoreRig) -> None:
        keys = ["1", "01", "1.0", "A", "a", "a ", "ä", "a\u0308", "null", "'", '"', "\\", "%"]
        for number, key in enumerate(keys):
            await rig.put(f"{number}", f"{number}", aggregate_id=key, partition=9)
        claimed = (await rig.claim()).records
        assert len(claimed) == 2 * len(keys)
        await rig.store.settlements.settle(Settlement(attempts=[attempt(claimed[0])]))
        claim = await rig.claim()
        assert {each.record.aggregate_id for each in claim.records} == set(keys[1:])

    async def test_followers_are_parked_once(self, rig: StoreRig) -> None:
        await rig.put(*numbered("a", 1, 5))
        await rig.refuse("a1")
        claim = await rig.claim()
        assert (claim.records, set(claim.more)) == ((), {partition_of("a1")})
        with noted_statements() as sent:
            claim = await rig.store.claims.claim({partition_of("a1"): 1}, depth=10)
        assert (claim.records, set(claim.more), len(sent)) == ((), set(), 1)
        assert (await rig.poll()).leases == ()

    async def test_followers_are_parked_far_ahead(self, rig: StoreRig) -> None:
        await rig.put("a1", *numbered("a", 2, 60), "b1", partition=9)
        await rig.refuse("a1")
        await rig.claim(depth=1)
        assert BlockedKeys.AHEAD > 60
        assert await rig.open_to_claim(depth=1) == ["b1"]

    async def test_followers_of_many_partitions_are_parked_some_at_a_time(
        self, rig: StoreRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(BlockedKeys, "AHEAD", 7)
        for key, partition in {"a": 7, "b": 8, "c": 9}.items():
            await rig.put(*numbered(key, 1, 8), f".{key}", partition=partition)
        await rig.refuse("a1", "b1", "c1")
        found = [await rig.open_to_claim(depth=2)]
        parked = [row for row in (await rig.rows()).values() if not (row.ready or row.due_at)]
        assert len(parked) == 9  # of each partition a third of 7, rounded up
        found += [await rig.open_to_claim(depth=2) for _ in range(2)]
        assert found == [[], [], [".a", ".b", ".c"]]

    async def test_followers_of_many_keys_are_released_some_at_a_time(
        self, rig: StoreRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for key in "abc":
            await rig.put(*numbered(key, 1, 8), partition=7)
        await rig.refuse("a1", "b1", "c1", delay=ZERO)
        await rig.claim()
        monkeypatch.setattr(BlockedKeys, "AHEAD", 7)
        await rig.deliver("a1", "b1", "c1")
        found = await rig.open_to_claim()
        assert sorted(found) == [*numbered("a", 2, 4), *numbered("b", 2, 4), *numbered("c", 2, 4)]

    async def test_what_other_keys_have_ready_is_not_parked_with_them(self, rig: StoreRig) -> None:
        names = ["a1", "b1", "a2", "b2", "a3", ".1", "a4", "b3"]
        await rig.put(*names, partition=9)
        await rig.refuse("a1")
        await rig.claim(depth=1)
        assert await rig.open_to_claim(depth=2) in (["b1"], ["b1", "b2"])
        assert await rig.open_to_claim() == ["b1", "b2", ".1", "b3"]

    async def test_the_record_itself_comes_back_when_it_is_due(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2")
        await rig.refuse("a1")
        rig.later(2 * MINUTE)
        claim = await rig.claim()
        assert [(each.record.event_type, each.blocks_key) for each in claim.records] == [
            ("a1", True)
        ]

    async def test_what_was_postponed_for_up_to_a_minute_can_be_retried_before(
        self, rig: StoreRig
    ) -> None:
        soon = {"ready": False, "partition": 9, "due_at": rig.now() + MINUTE / 2}
        postponed = {**soon, "error_message": "no route"}
        await rig.put(".1", **postponed)
        await rig.put(".2", **soon)  # delayed
        await rig.put(".3", **postponed, retry_count=1)  # refused
        await rig.put(".4", **{**postponed, "due_at": rig.now() + 2 * MINUTE})
        await rig.put(".5", **{**postponed, "partition": 8})
        await rig.put(".6", **{**postponed, "error_message": "quarantined: workers died"})
        await rig.store.claims.retry_postponed([7, 9])
        assert await rig.open_to_claim() == [".1"]

    async def test_followers_leave_in_order_once_it_is_through(self, rig: StoreRig) -> None:
        await rig.put(*numbered("a", 1, 6))
        await rig.refuse("a1")
        await rig.claim()
        rig.later(2 * MINUTE)
        assert await rig.drain() == numbered("a", 1, 6)
        assert await rig.gates() == {}

    async def test_followers_leave_in_batches(self, rig: StoreRig) -> None:
        last = 2 * BlockedKeys.RELEASED + 10
        await rig.put(*numbered("a", 1, last))
        await rig.refuse("a1", delay=ZERO)
        await rig.claim()
        await rig.deliver("a1")
        assert await rig.open_to_claim() == numbered("a", 2, BlockedKeys.RELEASED + 1)
        await rig.deliver(*numbered("a", 2, BlockedKeys.RELEASED + 1))
        assert await rig.open_to_claim() == numbered(
            "a", BlockedKeys.RELEASED + 2, 2 * BlockedKeys.RELEASED + 1
        )
        await rig.deliver(*numbered("a", BlockedKeys.RELEASED + 2, 2 * BlockedKeys.RELEASED + 1))
        assert await rig.open_to_claim() == numbered("a", 2 * BlockedKeys.RELEASED + 2, last)

    async def test_what_is_new_never_overtakes_what_waits(self, rig: StoreRig) -> None:
        await rig.put(*numbered("a", 1, BlockedKeys.RELEASED + 20))
        await rig.refuse("a1", delay=ZERO)
        await rig.claim()
        delivered: list[str] = []
        for number in range(30):
            await rig.put(f"a{BlockedKeys.RELEASED + 21 + number}")
            claim = await rig.claim(depth=7)
            await rig.store.settlements.settle(Settlement(delivered=list(claim.records)))
            delivered += names_of(claim.records)
        delivered += await rig.drain()
        assert delivered == numbered("a", 1, BlockedKeys.RELEASED + 50)

    async def test_a_record_refused_among_the_followers_holds_back_the_rest(
        self, rig: StoreRig
    ) -> None:
        await rig.put(*numbered("a", 1, 6))
        await rig.refuse("a1", delay=ZERO)
        await rig.claim()
        await rig.deliver("a1")
        await rig.deliver("a2")
        await rig.refuse("a3")
        assert await rig.open_to_claim() == []
        rig.later(2 * MINUTE)
        assert await rig.drain() == numbered("a", 3, 6)

    async def test_a_record_can_be_refused_many_times(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "a3")
        for count in range(1, 6):
            await rig.refuse("a1")
            assert (await rig.row("a1")).retry_count == count
            assert await rig.open_to_claim() == []
            rig.later(2 * MINUTE)
        assert await rig.drain() == ["a1", "a2", "a3"]

    async def test_a_delayed_record_waits_behind_the_gate_of_its_key(self, rig: StoreRig) -> None:
        await rig.put("a1")
        await rig.put("a2", ready=False, due_at=rig.now() + MINUTE)
        await rig.put("a3")
        await rig.refuse("a1", delay=5 * MINUTE)
        rig.later(2 * MINUTE)
        assert await rig.open_to_claim() == []
        rig.later(4 * MINUTE)
        assert await rig.drain() == ["a1", "a2", "a3"]

    async def test_an_older_delayed_record_waits_behind_the_gate_too(self, rig: StoreRig) -> None:
        await rig.put("a1", ready=False, due_at=rig.now() + MINUTE)
        await rig.put("a2", "a3")
        await rig.refuse("a2", delay=5 * MINUTE)
        rig.later(2 * MINUTE)
        assert await rig.open_to_claim() == []
        rig.later(4 * MINUTE)
        assert sorted(await rig.drain()) == ["a1", "a2", "a3"]

    async def test_a_delayed_record_that_is_not_due_holds_nobody(self, rig: StoreRig) -> None:
        await rig.put("a1", ready=False, due_at=rig.now() + MINUTE)
        await rig.put("a2", "a3")
        assert await rig.drain() == ["a2", "a3"]
        rig.later(2 * MINUTE)
        assert await rig.drain() == ["a1"]

    async def test_a_slow_record_holds_back_its_key_and_may_be_claimed_again(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "a2", "a3", "b1")
        [slow] = await rig.claimed("a1")
        await rig.store.settlements.settle(Settlement(slow=[slow]))
        assert await rig.open_to_claim(held=[slow]) == ["b1"]
        rig.later(2 * LEASE)  # and its worker died
        claim = await rig.claim("bob")
        assert [(each.record.event_type, each.blocks_key) for each in claim.records] == [
            ("a1", True),
            ("b1", False),
        ]

    async def test_a_slow_record_that_arrives_lets_the_rest_go(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "a3")
        [slow] = await rig.claimed("a1")
        await rig.store.settlements.settle(Settlement(slow=[slow]))
        await rig.claim(held=[slow])
        slow.blocks_key = True
        await rig.store.settlements.settle(Settlement(delivered=[slow]))
        assert await rig.drain() == ["a2", "a3"]

    async def test_a_slow_record_that_is_refused_goes_on_holding_its_key(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "a2")
        [slow] = await rig.claimed("a1")
        await rig.store.settlements.settle(Settlement(slow=[slow]))
        slow.blocks_key = True
        await rig.store.settlements.settle(Settlement(attempts=[attempt(slow)]))
        assert await rig.open_to_claim() == []
        rig.later(2 * MINUTE)
        assert await rig.drain() == ["a1", "a2"]

    async def test_a_record_without_a_key_can_be_slow(self, rig: StoreRig) -> None:
        await rig.put(".1", ".2")
        await rig.store.settlements.settle(Settlement(slow=await rig.claimed(".1")))
        assert await rig.gates() == {}

    async def test_hundreds_of_keys_can_be_blocked_at_once(self, rig: StoreRig) -> None:
        keys = [f"k{number}-" for number in range(300)]
        await rig.put(*(f"{key}1" for key in keys), *(f"{key}2" for key in keys))
        await rig.refuse(*(f"{key}1" for key in keys))
        assert await rig.open_to_claim() == []
        rig.later(2 * MINUTE)
        delivered = await rig.drain()
        for key in keys:
            assert of_key(delivered, key) == [f"{key}1", f"{key}2"]

    @pytest.mark.requirement("C16")
    async def test_one_settlement_can_do_everything_at_once(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2", ".1", ".2")
        await rig.refuse("a1", delay=ZERO)
        await rig.claim()
        a1, b1, c1, d1, dot = await rig.claimed("a1", "b1", "c1", "d1", ".1")
        await rig.store.settlements.settle(
            Settlement(
                delivered=[a1, dot],
                attempts=[attempt(b1), attempt(c1, delay=None, holds=False)],
                slow=[d1],
            )
        )
        assert await rig.open_to_claim(held=[d1]) == ["a2", "c2", ".2"]
        assert await rig.gates() == {"a": "a2", "b": "b1", "d": "d1"}

    @pytest.mark.parametrize("kept", [True, False], ids=["kept", "deleted"])
    @pytest.mark.parametrize("behind", [[], ["a3", "a4"]], ids=["last", "with followers"])
    async def test_a_delivery_unblocks_the_key_that_its_record_blocks_by_now(
        self, rig: StoreRig, kept: bool, behind: list[str]
    ) -> None:
        """It was claimed before it came to block its key."""
        rig.store = rig.another_store(keep_delivered=kept)
        await rig.put("a1", "a2")
        a1, a2 = await rig.claimed("a1", "a2")
        await rig.store.settlements.settle(Settlement(slow=[a1]))
        a1.blocks_key = True
        await rig.store.settlements.settle(Settlement(delivered=[a1]))
        assert await rig.gates() == {"a": "a2"}
        if behind:
            await rig.put(*behind)
            assert await rig.open_to_claim(held=[a2]) == []
        await rig.store.settlements.settle(Settlement(delivered=[a2]))
        assert await rig.drain() == behind
        assert await rig.gates() == {}
        await rig.put("a5")
        assert await rig.drain() == ["a5"]

    @pytest.mark.parametrize("gone", [True, False], ids=["gone", "delivered"])
    @pytest.mark.parametrize("parked", [True, False], ids=["parked", "new"])
    async def test_a_claim_that_meets_a_blocked_key_whose_record_is_done_releases_it(
        self, rig: StoreRig, gone: bool, parked: bool
    ) -> None:
        await rig.put("a1", "b1")
        await rig.deliver("a1")
        blocker = (await rig.row("a1")).position
        await rig.put("a2", ready=not parked)
        await rig.put("a3")
        await rig.sql(
            "INSERT INTO suite_outbox_blocked_keys (aggregate_type, aggregate_id, position)"
            " VALUES ('suite', 'a', :position)",
            position=blocker,
        )
        if gone:
            await rig.sql("DELETE FROM suite_outbox WHERE event_type = 'a1'")
        await rig.claim()
        assert of_key(await rig.drain(), "a") == ["a2", "a3"]
        assert await rig.gates() == {}
