"""What only happens when several are at work in PostgreSQL at the same time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import timedelta

import asyncpg
import pytest
import pytest_asyncio
from sqlalchemy import text

from postroom.database.errors import database_outage
from postroom.operations.changes import Changes
from postroom.record import PARTITIONS, Key
from postroom.store.base import Poll, Settlement
from postroom.store.blocked_keys import BlockedKeys
from tests.conformance.store.desk import (
    DAY,
    LEASE,
    MINUTE,
    ZERO,
    Desk,
    StoreHarness,
    attempt,
    names_of,
    numbered,
    of_key,
    tokens_of,
)
from tests.conformance.store.harnesses import postgres
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
WORKERS = ("ann", "bob", "cyd", "dan")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _harness(postgres_url: str) -> AsyncIterator[StoreHarness]:
    async with postgres(postgres_url) as harness:
        yield harness


@pytest_asyncio.fixture(loop_scope="module")
async def desk(_harness: StoreHarness) -> Desk:
    desk = Desk(_harness)
    await desk.clear()
    return desk


async def fill(desk: Desk) -> None:
    for partition in range(PARTITIONS):
        await desk.put(f".{partition}", partition=partition)


def shared(polls: Sequence[Poll]) -> list[int]:
    """Give the partitions that several of these polls gave."""
    given = Counter(lease.partition for poll in polls for lease in poll.leases)
    return [partition for partition, times in given.items() if times > 1]


async def poll_all(desk: Desk) -> list[Poll]:
    """Poll, all workers at once; those that hold more than their share give up some."""
    first = await asyncio.gather(*(desk.poll(worker) for worker in WORKERS))
    assert shared(first) == []
    surplus = [sorted(tokens_of(poll))[poll.share :] for poll in first]
    pairs = zip(WORKERS, surplus, strict=True)
    polls = await asyncio.gather(*(desk.poll(worker, surplus=some) for worker, some in pairs))
    assert shared(polls) == []
    return polls


async def waiter_is_blocked(desk: Desk) -> None:
    """Wait, not for ever, until somebody waits for a lock in this database."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with desk.engine.connect() as connection:
        connection = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await eventually(lambda: connection.scalar(waiting), "somebody waits for a lock")


@pytest.mark.requirement("C9")
async def test_workers_that_poll_at_once_never_share_a_partition(desk: Desk) -> None:
    await fill(desk)
    for _ in range(15):
        await poll_all(desk)
    assert [len(poll.leases) for poll in await poll_all(desk)] == [16] * 4


async def test_workers_that_take_over_at_once_never_share_a_partition(desk: Desk) -> None:
    await fill(desk)
    highest = dict.fromkeys(range(PARTITIONS), 0)
    for number in range(10):
        polls = await asyncio.gather(*(desk.poll(f"{worker}{number}") for worker in WORKERS))
        assert shared(polls) == []
        for partition, token in (pair for poll in polls for pair in tokens_of(poll).items()):
            assert token > highest[partition]
            highest[partition] = token
        desk.later(3 * LEASE)


async def test_a_worker_that_wakes_up_late_shares_nothing_with_who_takes_over(desk: Desk) -> None:
    await fill(desk)
    await desk.poll("ann")
    for _ in range(10):
        desk.later(3 * LEASE)
        assert shared(await asyncio.gather(desk.poll("ann"), desk.poll("bob"))) == []


async def test_stores_can_be_opened_all_at_once(desk: Desk) -> None:
    await desk.sql("DELETE FROM suite_outbox_leases")
    await asyncio.gather(*(desk.another_store().open() for _ in range(6)))
    [row] = await desk.sql("SELECT count(*) AS n FROM suite_outbox_leases")
    assert row.n == PARTITIONS


async def test_what_is_parked_while_its_gate_is_opened_is_not_left_behind(desk: Desk) -> None:
    """The operator's transaction has opened the gate, and is not committed when a claim parks."""
    await desk.put("a1", "a2", "a3", "b1")
    await desk.fail("a1")
    [failed] = await desk.ids("a1")
    tokens = tokens_of(await desk.poll())
    async with desk.engine.begin() as held:
        await held.execute(text("LOCK TABLE suite_outbox_blocked_keys IN ROW EXCLUSIVE MODE"))
        await held.execute(text("SELECT 1 FROM suite_outbox_blocked_keys FOR UPDATE"))
        skipping = asyncio.create_task(desk.operations.skip([failed]))
        claiming = asyncio.create_task(desk.store.claims.claim(tokens, depth=10))
        await waiter_is_blocked(desk)
    await asyncio.gather(skipping, claiming)
    delivered = await desk.drain()
    assert of_key(delivered, "a") == ["a2", "a3"]
    assert await desk.store.repair() == 0


async def test_what_is_parked_while_its_gate_is_skipped_is_not_left_behind(desk: Desk) -> None:
    await desk.put("a1", *numbered("a", 2, 9), "b1")
    await desk.fail("a1")
    tokens = tokens_of(await desk.poll())
    [row] = await desk.sql("SELECT position FROM suite_outbox WHERE event_type = 'a1'")
    async with desk.store.database.transaction() as skipping:
        keys = await desk.store.blocked_keys.lock(skipping, [_key("a")])
        await desk.store.blocked_keys.release(skipping, keys, [row.position])
        claiming = asyncio.create_task(desk.store.claims.claim(tokens, depth=10))
        await waiter_is_blocked(desk)
    await claiming
    assert of_key(await desk.drain(), "a") == numbered("a", 2, 9)
    assert await desk.store.repair() == 0


async def test_a_claim_has_not_read_past_followers_whose_key_is_released_meanwhile(
    desk: Desk,
) -> None:
    await desk.put("a1", "a2", "a3")
    await desk.fail("a1")
    failed, follower = await desk.row("a1"), await desk.row("a2")
    tokens = tokens_of(await desk.poll())
    async with desk.store.database.transaction() as skipping:
        keys = await desk.store.blocked_keys.lock(skipping, [_key("a")])
        await desk.store.blocked_keys.release(skipping, keys, [failed.position])
        claiming = asyncio.create_task(desk.store.claims.claim(tokens, depth=10))
        await waiter_is_blocked(desk)
    claim = await claiming
    assert claim.records == ()
    assert claim.reached[follower.partition] < follower.position


async def test_a_key_that_is_blocked_while_its_record_is_being_discarded_is_unblocked(
    desk: Desk,
) -> None:
    await desk.put("a1", "a2")
    [row] = await desk.sql("SELECT position FROM suite_outbox WHERE event_type = 'a1'")
    async with desk.engine.begin() as other:
        await other.execute(text("SELECT 1 FROM suite_outbox WHERE event_type = 'a1' FOR UPDATE"))
        discarding = asyncio.create_task(desk.operations.discard(await desk.ids("a1")))
        await waiter_is_blocked(desk)  # it has found no blocked key, and waits for the record
        async with desk.store.database.transaction() as run:
            await desk.store.blocked_keys.block(run, {_key("a"): row.position})
    assert await discarding == 1
    assert await desk.sql("SELECT * FROM suite_outbox_blocked_keys") == []
    assert await desk.drain() == ["a2"]


async def test_a_gate_that_is_opened_while_followers_are_being_parked_waits_for_them(
    desk: Desk,
) -> None:
    await desk.put("a1", *numbered("a", 2, 9))
    await desk.fail("a1")
    ids = await desk.ids("a1")
    tokens = tokens_of(await desk.poll())
    async with desk.engine.begin() as slow:
        await slow.execute(text("SELECT 1 FROM suite_outbox WHERE event_type = 'a5' FOR UPDATE"))
        claiming = asyncio.create_task(desk.store.claims.claim(tokens, depth=10))
        await waiter_is_blocked(desk)  # with the gate locked
        skipping = asyncio.create_task(desk.operations.skip(ids))
        await asyncio.sleep(0)
    await asyncio.gather(claiming, skipping)
    assert await desk.drain() == numbered("a", 2, 9)
    assert await desk.store.repair() == 0


async def test_skips_and_claims_at_random_leave_nobody_behind(desk: Desk) -> None:
    for number in range(12):
        key = f"k{number}-"
        await desk.put(*numbered(key, 1, 4))
        await desk.fail(f"{key}1")
        tokens = tokens_of(await desk.poll())
        skip = desk.operations.skip(await desk.ids(f"{key}1"))
        await asyncio.gather(skip, *(desk.store.claims.claim(tokens, depth=3) for _ in range(3)))
        assert await desk.drain() == numbered(key, 2, 4)
    assert await desk.gates() == {}
    assert await desk.store.repair() == 0


async def test_settling_and_parking_at_once_leave_nobody_behind(desk: Desk) -> None:
    await desk.put(*numbered("a", 1, BlockedKeys.RELEASED + 50))
    await desk.refuse("a1", delay=ZERO)
    await desk.claim()
    await desk.deliver("a1")
    delivered = ["a1"]
    number = BlockedKeys.RELEASED + 50
    while claimed := (await desk.claim(depth=40)).records:
        tokens = {each.partition: each.token for each in claimed}
        number += 1
        await asyncio.gather(
            desk.store.settlements.settle(Settlement(delivered=list(claimed))),
            desk.put(f"a{number}") if number < BlockedKeys.RELEASED + 60 else desk.poll(),
            desk.store.claims.claim(tokens, depth=40),
        )
        delivered += names_of(claimed)
    assert delivered == numbered("a", 1, BlockedKeys.RELEASED + 59)
    assert await desk.gates() == {}


async def test_a_refusal_and_a_takeover_at_once_agree_on_one_of_them(desk: Desk) -> None:
    for number in range(10):
        name = f"k{number}-1"
        await desk.put(name)
        [record] = await desk.claimed(name, worker="ann")
        desk.later(3 * LEASE)
        refusal = desk.store.settlements.settle(
            Settlement(attempts=[attempt(record, delay=60 * MINUTE)])
        )
        _, poll = await asyncio.gather(refusal, desk.poll("bob"))
        refused = (await desk.row(name)).retry_count == 1
        # It was refused before bob had the lease, or not at all.
        claim = await desk.store.claims.claim(tokens_of(poll), depth=10)
        assert names_of(claim.records) == ([] if refused else [name])
        await desk.sql("DELETE FROM suite_outbox")
        await desk.store.leases.release("bob")
        await desk.store.leases.release("ann")


async def test_two_operators_can_skip_the_same_record_at_once(desk: Desk) -> None:
    await desk.put(*numbered("a", 1, 4))
    await desk.fail("a1")
    await desk.claim()
    ids = await desk.ids("a1")
    await asyncio.gather(*(desk.operations.skip(ids) for _ in range(4)))
    await desk.refuse("a2")
    await asyncio.gather(*(desk.operations.skip(ids) for _ in range(4)))
    assert await desk.open_to_claim() == []
    desk.later(2 * MINUTE)
    assert await desk.drain() == numbered("a", 2, 4)


async def test_a_key_that_is_blocked_while_its_pause_ends_waits_for_the_blocking_record(
    desk: Desk,
) -> None:
    await desk.put("a1", "a2", "a3")
    [first] = await desk.claimed("a1")
    await desk.pause("a2")
    await desk.claim(held=[first.position])
    assert await desk.gates() == {"a": "a2"}
    async with desk.store.database.transaction() as refusing:
        await desk.store.blocked_keys.lock(refusing, [_key("a")])
        resuming = asyncio.create_task(desk.resume())
        await waiter_is_blocked(desk)
        await desk.store.blocked_keys.block(refusing, {_key("a"): first.position})
    await resuming
    assert await desk.gates() == {"a": "a1"}
    assert await desk.drain() == ["a1", "a2", "a3"]


async def test_what_is_replayed_while_it_is_cleaned_up_is_not_deleted(desk: Desk) -> None:
    await desk.put("a1")
    await desk.deliver("a1")
    desk.later(2 * DAY)
    ids = await desk.ids("a1")
    async with desk.store.database.transaction() as replaying:
        await Changes(desk.store).replay("1", replaying, ids)
        cleaning = asyncio.create_task(desk.store.clean(older_than=DAY))
        await waiter_is_blocked(desk)
    assert (await cleaning).deleted == 0
    assert await desk.drain() == ["a1"]


def _key(aggregate_id: str) -> Key:
    return Key("suite", aggregate_id)


async def test_a_migration_while_a_relay_runs_is_over_with_the_next_claims(desk: Desk) -> None:
    """PostgreSQL refuses a prepared statement whose result has another type now."""
    await desk.put("a1")
    assert await desk.open_to_claim() == ["a1"]
    try:
        await desk.sql("ALTER TABLE suite_outbox ALTER retry_count TYPE bigint")
        for _ in range(20):  # each connection has statements of its own
            [result] = await asyncio.gather(desk.open_to_claim(), return_exceptions=True)
            if not isinstance(result, Exception):
                break
            assert database_outage(result)
        assert result == ["a1"]
    finally:
        await desk.sql("ALTER TABLE suite_outbox ALTER retry_count TYPE integer")
        await desk.engine.dispose()  # those who follow share it


async def test_a_worker_that_is_frozen_before_its_commit_locks_its_leases_no_longer_than_it_may(
    desk: Desk,
) -> None:
    await fill(desk)
    second = timedelta(seconds=1)
    store = desk.another_store(lease=second)
    # What the server answers when it has ended the transaction, or asyncpg in its place.
    with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        async with store.database.transaction() as run:
            await run(text("UPDATE suite_outbox_leases SET token = token + 1"))  # and no further

            async def bob_has_all() -> bool:
                poll = await desk.store.leases.poll("bob", lease=second)
                return len(poll.leases) == PARTITIONS

            await eventually(bob_has_all)


async def test_connections_of_a_relay_say_whose_they_are_unless_the_application_has(
    desk: Desk,
) -> None:
    [row] = await desk.sql("SELECT current_setting('application_name') AS name")
    assert row.name == "postroom suite_outbox"
