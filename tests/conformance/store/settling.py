"""How deliveries went, written down."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Row

from postroom.store.base import HeldRecord, Settlement
from tests.conformance.store.rig import LEASE, MINUTE, ZERO, StoreRig, attempt, names_of
from tests.support.statements import noted_statements

DELIVERED = "SET status = 'published', ready = false"
ODD_REASONS = {
    "with a NUL": "before\0after",
    "with half a surrogate pair": "before\ud800after",
    "with a whole one": "💌",
    "of a megabyte": "x" * 2**20,
    "with quotes": 'it\'s "so" \\ :colon %s {} $1',
    "with lines": "one\ntwo\r\n\tthree",
}


async def take_over(rig: StoreRig, *names: str) -> list[HeldRecord]:
    """Claim as ann, and have bob take the leases over."""
    claimed = await rig.claimed(*names)
    rig.later(2 * LEASE)
    assert (await rig.poll("bob")).leases
    return claimed


async def everything(rig: StoreRig) -> tuple[dict[str, Row[Any]], dict[str, str]]:
    return await rig.rows(), await rig.gates()


class Settling:
    """Facts stand; the rest needs the lease."""

    async def test_a_late_delivery_releases_one_record_as_the_next_holder_may_have_read_past_it(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "a2", "a3", "a4")
        await rig.refuse("a1", delay=ZERO)
        assert await rig.open_to_claim() == ["a1"]
        [a1] = await take_over(rig, "a1")
        await rig.store.settlements.settle(Settlement(delivered=[a1]))
        assert names_of((await rig.claim("bob")).records) == ["a2"]
        assert await rig.drain("bob") == ["a2", "a3", "a4"]

    async def test_nothing_to_settle_is_fine(self, rig: StoreRig) -> None:
        await rig.store.settlements.settle(Settlement())

    async def test_deliveries_of_free_keys_are_written_apart_from_what_blocks_a_key(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "b1", "b2", "c1")
        a1, b1, c1 = await rig.claimed("a1", "b1", "c1")
        with noted_statements() as sent:
            await rig.store.settlements.settle(
                Settlement(delivered=[a1, c1], attempts=[attempt(b1, delay=MINUTE)])
            )
        writes = [number for number, each in enumerate(sent) if DELIVERED in each]
        assert writes[:1] == [0]  # before any key is locked
        rows = await rig.rows()
        assert {name: row.status for name, row in rows.items()} == {
            "a1": "published",
            "b1": "pending",
            "b2": "pending",
            "c1": "published",
        }
        assert await rig.drain() == []

    @pytest.mark.requirement("D9")
    async def test_what_is_delivered_says_so_and_when(self, rig: StoreRig) -> None:
        await rig.put("a1")
        await rig.refuse("a1", reason="nobody there", delay=ZERO)
        assert (await rig.row("a1")).error_message == "nobody there"
        await rig.deliver("a1")
        row = await rig.row("a1")
        assert (row.status, row.ready, row.due_at) == ("published", False, None)
        assert (row.error_message, row.retry_count) == (None, 1)
        assert abs(row.published_at - rig.now()) < MINUTE
        assert abs(row.updated_at - rig.now()) < MINUTE

    async def test_delivered_is_a_fact_whoever_holds_the_lease(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1")
        claimed = await take_over(rig, "a1", "b1")
        await rig.store.settlements.settle(Settlement(delivered=claimed))
        assert await rig.open_to_claim(worker="bob") == []
        assert {row.status for row in (await rig.rows()).values()} == {"published"}

    async def test_delivered_twice_keeps_the_first_time(self, rig: StoreRig) -> None:
        await rig.put("a1")
        claimed = await rig.claimed("a1")
        await rig.store.settlements.settle(Settlement(delivered=claimed))
        first = (await rig.row("a1")).published_at
        rig.later(MINUTE)
        await rig.store.settlements.settle(Settlement(delivered=claimed))
        assert (await rig.row("a1")).published_at == first

    async def test_a_refusal_after_the_delivery_changes_nothing(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2")
        [one] = await rig.claimed("a1")
        [again] = await rig.claimed("a1")
        await rig.store.settlements.settle(Settlement(delivered=[one]))
        before = await rig.row("a1")
        await rig.store.settlements.settle(Settlement(attempts=[attempt(again)]))
        assert await rig.row("a1") == before
        assert await rig.drain() == ["a2"]

    async def test_a_late_delivery_opens_the_gate_that_another_worker_made(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "a2", "a3")
        [late] = await take_over(rig, "a1")
        [refused] = await rig.claimed("a1", worker="bob")
        await rig.store.settlements.settle(
            Settlement(attempts=[attempt(refused, delay=10 * MINUTE)])
        )
        await rig.claim("bob")
        await rig.store.settlements.settle(Settlement(delivered=[late]))
        assert await rig.drain("bob") == ["a2", "a3"]

    async def test_a_refusal_of_a_record_that_is_gone_blocks_nobody(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2")
        [record] = await rig.claimed("a1")
        await rig.sql("DELETE FROM suite_outbox WHERE event_type = 'a1'")
        await rig.store.settlements.settle(Settlement(attempts=[attempt(record)]))
        assert await rig.drain() == ["a2"]

    async def test_a_slow_record_that_is_gone_blocks_nobody(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2")
        [record] = await rig.claimed("a1")
        await rig.operations.discard([record.record.id])
        await rig.store.settlements.settle(Settlement(slow=[record]))
        assert await rig.drain() == ["a2"]

    @pytest.mark.requirement("C10", "D9")
    async def test_what_is_refused_waits_with_its_error_and_count(self, rig: StoreRig) -> None:
        await rig.put("a1", ".1")
        await rig.refuse("a1", ".1", delay=MINUTE, reason="no route")
        for name in ("a1", ".1"):
            row = await rig.row(name)
            assert (row.status, row.ready, row.retry_count) == ("pending", False, 1)
            assert (row.error_message, row.published_at) == ("no route", None)
            assert abs(row.due_at - rig.now() - MINUTE) < timedelta(seconds=10)
        assert await rig.open_to_claim() == []
        rig.later(MINUTE + timedelta(seconds=1))
        assert await rig.open_to_claim() == ["a1", ".1"]

    async def test_without_a_delay_it_is_due_at_once(self, rig: StoreRig) -> None:
        await rig.put("a1", ".1")
        await rig.refuse("a1", ".1", delay=ZERO)
        assert await rig.open_to_claim() == ["a1", ".1"]

    async def test_a_delay_of_microseconds_or_years_is_kept(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1")
        await rig.refuse("a1", delay=timedelta(microseconds=1))
        await rig.refuse("b1", delay=timedelta(days=3650))
        rig.later(MINUTE)
        assert await rig.open_to_claim() == ["a1"]
        rig.later(timedelta(days=3651))
        assert await rig.open_to_claim() == ["a1", "b1"]

    async def test_delays_in_one_settlement_are_each_record_s_own(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1", "c1")
        a1, b1, c1 = await rig.claimed("a1", "b1", "c1")
        refused = [
            attempt(a1, delay=3 * MINUTE),
            attempt(b1, delay=MINUTE),
            attempt(c1, delay=None),
        ]
        await rig.store.settlements.settle(Settlement(attempts=refused))
        rig.later(2 * MINUTE)
        assert await rig.open_to_claim() == ["b1"]
        assert (await rig.row("c1")).status == "failed"

    @pytest.mark.requirement("C10")
    async def test_what_has_failed_says_so_and_holds_its_key(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "b1")
        await rig.refuse("a1", delay=None, reason="never")
        row = await rig.row("a1")
        assert (row.status, row.ready) == ("failed", False)
        assert (row.error_message, row.retry_count) == ("never", 1)
        rig.later(timedelta(days=365))
        assert await rig.open_to_claim() == ["b1"]

    async def test_a_failed_record_that_does_not_hold_lets_its_key_go(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "a3")
        await rig.refuse("a1", delay=None, holds=False)
        assert await rig.drain() == ["a2", "a3"]
        assert (await rig.row("a1")).status == "failed"

    async def test_a_gate_that_fails_without_holding_lets_its_key_go(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "a3")
        await rig.refuse("a1", delay=ZERO)
        await rig.claim()
        await rig.refuse("a1", delay=None, holds=False)
        assert await rig.drain() == ["a2", "a3"]
        assert await rig.gates() == {}

    @pytest.mark.requirement("E1")
    @pytest.mark.parametrize("delay", [MINUTE, None], ids=["retry", "failed"])
    async def test_a_refusal_under_an_old_lease_writes_nothing(
        self, rig: StoreRig, delay: timedelta | None
    ) -> None:
        await rig.put("a1", "a2", ".1", "b1")
        claimed = await take_over(rig, "a1", ".1", "b1")
        before = await everything(rig)
        refused = [attempt(claimed[0], delay=delay), attempt(claimed[1], delay=delay)]
        await rig.store.settlements.settle(Settlement(attempts=refused, slow=[claimed[2]]))
        assert await everything(rig) == before

    @pytest.mark.requirement("E1")
    async def test_an_old_lease_opens_no_gate(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2")
        await rig.refuse("a1", delay=ZERO)
        await rig.claim()
        [gate] = await take_over(rig, "a1")
        before = await everything(rig)
        await rig.store.settlements.settle(
            Settlement(attempts=[attempt(gate, delay=None, holds=False)])
        )
        assert await everything(rig) == before

    async def test_a_refusal_under_a_lease_given_back_and_taken_again_writes_nothing(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "a2")
        [record] = await rig.claimed("a1")
        await rig.store.leases.release("ann")
        await rig.poll("ann")
        before = await everything(rig)
        await rig.store.settlements.settle(Settlement(attempts=[attempt(record)]))
        assert await everything(rig) == before

    async def test_an_expired_lease_that_nobody_took_still_counts(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2")
        [record] = await rig.claimed("a1")
        rig.later(10 * LEASE)
        await rig.store.settlements.settle(Settlement(attempts=[attempt(record)]))
        assert (await rig.row("a1")).retry_count == 1

    async def test_part_of_a_settlement_can_be_too_late(self, rig: StoreRig) -> None:
        await rig.put(".1", partition=1)
        [lost] = await take_over(rig, ".1")
        await rig.put(".2", partition=2)
        await rig.put(".3", partition=1)
        poll = await rig.poll("ann")
        assert {lease.partition for lease in poll.leases} == {2}
        [kept] = (await rig.store.claims.claim({2: poll.leases[0].token}, depth=10)).records
        await rig.store.settlements.settle(Settlement(attempts=[attempt(lost), attempt(kept)]))
        counts = {name: row.retry_count for name, row in (await rig.rows()).items()}
        assert counts == {".1": 0, ".2": 1, ".3": 0}

    @pytest.mark.parametrize("reason", ODD_REASONS.values(), ids=ODD_REASONS.keys())
    async def test_any_text_can_be_a_reason(self, rig: StoreRig, reason: str) -> None:
        await rig.put("a1", "b1")
        await rig.refuse("a1", reason=reason)
        stored = (await rig.row("a1")).error_message
        assert stored[:6] == reason[:6]
        assert len(stored) < 10_000
        if reason.isascii() and "\0" not in reason and len(reason) < 1000:
            assert stored == reason

    async def test_without_a_reason_the_last_error_stays(self, rig: StoreRig) -> None:
        await rig.put("a1")
        await rig.refuse("a1", delay=ZERO, reason="no route")
        await rig.refuse("a1", delay=None, reason=None)
        row = await rig.row("a1")
        assert (row.status, row.error_message) == ("failed", "no route")

    async def test_counts_of_attempts_can_be_as_high_as_the_column_holds(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", retry_count=2**31 - 2)
        await rig.refuse("a1")
        assert (await rig.row("a1")).retry_count == 2**31 - 1

    @pytest.mark.requirement("C14")
    async def test_where_nothing_is_kept_a_delivery_deletes_the_record(self, rig: StoreRig) -> None:
        rig.store = rig.another_store(keep_delivered=False)
        await rig.put("a1", "b1", "a2", "a3")
        await rig.deliver("b1")
        await rig.refuse("a1", delay=ZERO)
        await rig.claim()
        assert await rig.drain() == ["a1", "a2", "a3"]
        assert (await rig.rows(), await rig.gates()) == ({}, {})

    async def test_ten_thousand_can_be_settled_at_once(self, rig: StoreRig) -> None:
        await rig.put(*numbered_dots(2000))
        claim = await rig.claim(depth=5000)
        await rig.store.settlements.settle(Settlement(delivered=list(claim.records) * 5))
        assert not any(row.ready for row in (await rig.rows()).values())


def numbered_dots(count: int) -> list[str]:
    return [f".{number}" for number in range(count)]
