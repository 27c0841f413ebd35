"""What may leave, and in which order."""

from datetime import UTC, datetime

from postroom.record import Key
from tests.conformance.store.desk import (
    LEASE,
    MINUTE,
    Desk,
    names_of,
    numbered,
    positions,
    tokens_of,
)


class Claiming:
    """Claims without anybody in the way."""

    async def test_records_come_in_the_order_of_their_positions(self, desk: Desk) -> None:
        names = ["b1", "a1", ".1", "a2", "b2", "c1", ".2", "a3"]
        await desk.put(*names)
        claim = await desk.claim()
        assert names_of(claim.records) == names
        assert positions(claim.records) == sorted(positions(claim.records))

    async def test_a_record_comes_as_it_was_put(self, desk: Desk) -> None:
        moment = datetime(2026, 1, 5, 12, 30, 15, 123456, tzinfo=UTC)
        payload = {"ü": "💌", "deep": [1, None, {"x": 1.5}], "big": 2**53}
        await desk.put(
            "ä1",
            aggregate_type="Größe",
            aggregate_id="💌 'quoted' \\ \" %s :x",
            payload=payload,
            headers={"trace": "00-1"},
            event_version=3,
            retry_count=2,
            max_retries=None,
            occurred_at=moment,
        )
        [held] = (await desk.claim()).records
        record, row = held.record, await desk.row("ä1")
        assert record.payload == payload
        assert (record.id, record.position, record.partition) == (
            row.id,
            row.position,
            row.partition,
        )
        assert (record.event_type, record.event_version) == ("ä1", 3)
        assert record.key == Key("Größe", "💌 'quoted' \\ \" %s :x")
        assert (record.headers, record.retry_count, record.max_retries) == (
            {"trace": "00-1"},
            2,
            None,
        )
        assert (record.occurred_at, record.created_at) == (moment, row.created_at)
        assert (held.fault, held.blocks_key) == (None, False)

    async def test_a_record_carries_the_token_of_its_lease(self, desk: Desk) -> None:
        await desk.put("a1", "b1")
        desk.later(LEASE)
        await desk.poll()
        desk.later(2 * LEASE)
        tokens = tokens_of(await desk.poll("bob"))
        claim = await desk.store.claims.claim(tokens, depth=10)
        assert {each.partition: each.token for each in claim.records} == tokens

    async def test_depth_is_per_partition_so_that_a_batch_holds_many_keys(self, desk: Desk) -> None:
        for partition in (1, 2, 3):
            await desk.put(*numbered(f"k{partition}-", 1, 5), partition=partition)
        claim = await desk.claim(depth=2)
        assert names_of(claim.records) == ["k1-1", "k1-2", "k2-1", "k2-2", "k3-1", "k3-2"]
        assert claim.more

    async def test_held_records_are_left_out_and_take_no_room(self, desk: Desk) -> None:
        await desk.put(*numbered(".", 1, 5), partition=1)
        first = await desk.claim(depth=2)
        second = await desk.claim(depth=2, held=positions(first.records))
        assert names_of(second.records) == [".3", ".4"]

    async def test_held_records_are_left_out_when_they_are_due(self, desk: Desk) -> None:
        await desk.put(*numbered(".", 1, 5), partition=1, ready=False, due_at=desk.now() - MINUTE)
        first = await desk.claim(depth=2)
        second = await desk.claim(depth=2, held=positions(first.records))
        assert names_of(first.records) == [".1", ".2"]
        assert names_of(second.records) == [".3", ".4"]

    async def test_more_says_whether_it_pays_to_ask_again(self, desk: Desk) -> None:
        await desk.put(*numbered(".", 1, 3), partition=1)
        assert (await desk.claim(depth=2)).more
        assert (await desk.claim(depth=3)).more  # who knows
        assert not (await desk.claim(depth=4)).more

    async def test_more_names_the_partitions_that_may_have_it(self, desk: Desk) -> None:
        await desk.put(*numbered(".", 1, 3), partition=1)
        await desk.put(".4", partition=2)
        assert (await desk.claim(depth=2)).more == {1}

    async def test_a_claim_reads_and_writes_nothing(self, desk: Desk) -> None:
        await desk.put("a1", "a2", ".1")
        before = await desk.rows()
        await desk.claim()
        assert await desk.rows() == before
        assert await desk.open_to_claim() == ["a1", "a2", ".1"]

    async def test_only_the_partitions_asked_for_are_read(self, desk: Desk) -> None:
        await desk.put(".1", partition=1)
        await desk.put(".2", partition=2)
        claim = await desk.store.claims.claim({2: 7}, depth=10)
        assert [(each.record.event_type, each.token) for each in claim.records] == [(".2", 7)]

    async def test_without_partitions_there_is_nothing(self, desk: Desk) -> None:
        await desk.put("a1")
        claim = await desk.store.claims.claim({}, depth=10)
        assert (claim.records, set(claim.more)) == ((), set())

    async def test_what_is_due_comes_and_what_is_not_yet_does_not(self, desk: Desk) -> None:
        await desk.put("a1", ready=False, due_at=desk.now() - MINUTE)
        await desk.put("b1", ready=False, due_at=desk.now() + MINUTE)
        await desk.put("c1")
        assert await desk.open_to_claim() == ["a1", "c1"]
        desk.later(2 * MINUTE)
        assert await desk.open_to_claim() == ["a1", "b1", "c1"]

    async def test_a_delayed_record_that_is_delivered_does_not_come_again(self, desk: Desk) -> None:
        await desk.put("a1", ready=False, due_at=desk.now() - MINUTE)
        await desk.deliver("a1")
        desk.later(10 * MINUTE)
        assert await desk.open_to_claim() == []

    async def test_delivered_and_failed_records_do_not_come_again(self, desk: Desk) -> None:
        await desk.put("a1", "b1", ".1", ".2")
        await desk.deliver("a1", ".1")
        await desk.fail("b1", ".2")
        desk.later(100 * MINUTE)
        assert await desk.open_to_claim() == []

    async def test_a_full_house_of_due_records_does_not_shut_out_ready_ones(
        self, desk: Desk
    ) -> None:
        await desk.put(*numbered(".", 1, 9), partition=1, ready=False, due_at=desk.now() - MINUTE)
        await desk.put(".ready", partition=1)
        assert ".ready" in await desk.open_to_claim(depth=2)

    async def test_thousands_of_partitions_worth_of_held_positions_are_fine(
        self, desk: Desk
    ) -> None:
        await desk.put("a1")
        held = range(10_000, 40_000)
        assert await desk.open_to_claim(held=held) == ["a1"]
