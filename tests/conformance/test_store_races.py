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
from tests.conformance.store.harnesses import postgres
from tests.conformance.store.rig import (
    DAY,
    LEASE,
    MINUTE,
    ZERO,
    StoreHarness,
    StoreRig,
    attempt,
    names_of,
    numbered,
    of_key,
    tokens_of,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
WORKERS = ("ann", "bob", "cyd", "dan")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _harness(postgres_url: str) -> AsyncIterator[StoreHarness]:
    async with postgres(postgres_url) as harness:
        yield harness


@pytest_asyncio.fixture(loop_scope="module")
async def rig(_harness: StoreHarness) -> StoreRig:
    rig = StoreRig(_harness)
    await rig.clear()
    return rig


async def fill(rig: StoreRig) -> None:
    for partition in range(PARTITIONS):
        await rig.put(f".{partition}", partition=partition)


def shared(polls: Sequence[Poll]) -> list[int]:
    """Give the partitions that several of these polls gave."""
    given = Counter(lease.partition for poll in polls for lease in poll.leases)
    return [partition for partition, times in given.items() if times > 1]


async def poll_all(rig: StoreRig) -> list[Poll]:
    """Poll, all workers at once; those that hold more than their share give up some."""
    first = await asyncio.gather(*(rig.poll(worker) for worker in WORKERS))
    assert shared(first) == []
    surplus = [sorted(tokens_of(poll))[poll.share :] for poll in first]
    pairs = zip(WORKERS, surplus, strict=True)
    polls = await asyncio.gather(*(rig.poll(worker, surplus=some) for worker, some in pairs))
    assert shared(polls) == []
    return polls


async def waiter_is_blocked(rig: StoreRig) -> None:
    """Wait, not for ever, until somebody waits for a lock in this database."""
    await eventually(lambda: blocked_waiters(rig), "somebody waits for a lock")


async def blocked_waiters(rig: StoreRig) -> int:
    """Count who waits for a lock in this database."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with rig.engine.connect() as connection:
        connection = await connection.execution_options(isolation_level="AUTOCOMMIT")
        count: int = await connection.scalar(waiting)
        return count


@pytest.mark.requirement("C9")
async def test_workers_that_poll_at_once_never_share_a_partition(rig: StoreRig) -> None:
    await fill(rig)
    for _ in range(15):
        await poll_all(rig)
    assert [len(poll.leases) for poll in await poll_all(rig)] == [16] * 4


async def test_workers_that_take_over_at_once_never_share_a_partition(rig: StoreRig) -> None:
    await fill(rig)
    highest = dict.fromkeys(range(PARTITIONS), 0)
    for number in range(10):
        polls = await asyncio.gather(*(rig.poll(f"{worker}{number}") for worker in WORKERS))
        assert shared(polls) == []
        for partition, token in (pair for poll in polls for pair in tokens_of(poll).items()):
            assert token > highest[partition]
            highest[partition] = token
        rig.later(3 * LEASE)


async def test_a_worker_that_wakes_up_late_shares_nothing_with_who_takes_over(
    rig: StoreRig,
) -> None:
    await fill(rig)
    await rig.poll("ann")
    for _ in range(10):
        rig.later(3 * LEASE)
        assert shared(await asyncio.gather(rig.poll("ann"), rig.poll("bob"))) == []


async def test_stores_can_be_opened_all_at_once(rig: StoreRig) -> None:
    await rig.sql("DELETE FROM suite_outbox_leases")
    await asyncio.gather(*(rig.another_store().open() for _ in range(6)))
    [row] = await rig.sql("SELECT count(*) AS n FROM suite_outbox_leases")
    assert row.n == PARTITIONS


async def test_what_is_parked_while_its_gate_is_opened_is_not_left_behind(rig: StoreRig) -> None:
    """The operator's transaction has opened the gate, and is not committed when a claim parks."""
    await rig.put("a1", "a2", "a3", "b1")
    await rig.fail("a1")
    [failed] = await rig.ids("a1")
    tokens = tokens_of(await rig.poll())
    async with rig.engine.begin() as held:
        await held.execute(text("LOCK TABLE suite_outbox_blocked_keys IN ROW EXCLUSIVE MODE"))
        await held.execute(text("SELECT 1 FROM suite_outbox_blocked_keys FOR UPDATE"))
        skipping = asyncio.create_task(rig.operations.skip([failed]))
        claiming = asyncio.create_task(rig.store.claims.claim(tokens, depth=10))
        await waiter_is_blocked(rig)
    await asyncio.gather(skipping, claiming)
    delivered = await rig.drain()
    assert of_key(delivered, "a") == ["a2", "a3"]
    assert await rig.store.cleaning.repair() == 0


async def test_what_is_parked_while_its_gate_is_skipped_is_not_left_behind(rig: StoreRig) -> None:
    await rig.put("a1", *numbered("a", 2, 9), "b1")
    await rig.fail("a1")
    tokens = tokens_of(await rig.poll())
    [row] = await rig.sql("SELECT position FROM suite_outbox WHERE event_type = 'a1'")
    async with rig.store.database.transaction() as skipping:
        keys = await rig.store.blocked_keys.lock(skipping, [_key("a")])
        await rig.store.blocked_keys.release(skipping, keys, [row.position])
        claiming = asyncio.create_task(rig.store.claims.claim(tokens, depth=10))
        await waiter_is_blocked(rig)
    await claiming
    assert of_key(await rig.drain(), "a") == numbered("a", 2, 9)
    assert await rig.store.cleaning.repair() == 0


async def test_a_claim_has_not_read_past_followers_whose_key_is_released_meanwhile(
    rig: StoreRig,
) -> None:
    await rig.put("a1", "a2", "a3")
    await rig.fail("a1")
    failed, follower = await rig.row("a1"), await rig.row("a2")
    tokens = tokens_of(await rig.poll())
    async with rig.store.database.transaction() as skipping:
        keys = await rig.store.blocked_keys.lock(skipping, [_key("a")])
        await rig.store.blocked_keys.release(skipping, keys, [failed.position])
        claiming = asyncio.create_task(rig.store.claims.claim(tokens, depth=10))
        await waiter_is_blocked(rig)
    claim = await claiming
    assert claim.records == ()
    assert claim.reached[follower.partition] < follower.position


async def test_a_key_that_is_blocked_while_its_record_is_being_discarded_is_unblocked(
    rig: StoreRig,
) -> None:
    await rig.put("a1", "a2")
    [row] = await rig.sql("SELECT position, id FROM suite_outbox WHERE event_type = 'a1'")
    async with rig.engine.begin() as other:
        await other.execute(text("SELECT 1 FROM suite_outbox WHERE event_type = 'a1' FOR UPDATE"))
        discarding = asyncio.create_task(rig.operations.discard(await rig.ids("a1")))
        await waiter_is_blocked(rig)  # it has found no blocked key, and waits for the record
        async with rig.store.database.transaction() as run:
            await rig.store.blocked_keys.block(run, {_key("a"): row})
    assert await discarding == 1
    assert await rig.sql("SELECT * FROM suite_outbox_blocked_keys") == []
    assert await rig.drain() == ["a2"]


async def test_a_gate_that_is_opened_while_followers_are_being_parked_waits_for_them(
    rig: StoreRig,
) -> None:
    await rig.put("a1", *numbered("a", 2, 9))
    await rig.fail("a1")
    ids = await rig.ids("a1")
    tokens = tokens_of(await rig.poll())
    async with rig.engine.begin() as slow:
        await slow.execute(text("SELECT 1 FROM suite_outbox WHERE event_type = 'a5' FOR UPDATE"))
        claiming = asyncio.create_task(rig.store.claims.claim(tokens, depth=10))
        await waiter_is_blocked(rig)  # with the gate locked
        skipping = asyncio.create_task(rig.operations.skip(ids))
        await asyncio.sleep(0)
    await asyncio.gather(claiming, skipping)
    assert await rig.drain() == numbered("a", 2, 9)
    assert await rig.store.cleaning.repair() == 0


async def test_skips_and_claims_at_random_leave_nobody_behind(rig: StoreRig) -> None:
    for number in range(12):
        key = f"k{number}-"
        await rig.put(*numbered(key, 1, 4))
        await rig.fail(f"{key}1")
        tokens = tokens_of(await rig.poll())
        skip = rig.operations.skip(await rig.ids(f"{key}1"))
        await asyncio.gather(skip, *(rig.store.claims.claim(tokens, depth=3) for _ in range(3)))
        assert await rig.drain() == numbered(key, 2, 4)
    assert await rig.gates() == {}
    assert await rig.store.cleaning.repair() == 0


async def test_settling_and_parking_at_once_leave_nobody_behind(rig: StoreRig) -> None:
    await rig.put(*numbered("a", 1, BlockedKeys.RELEASED + 50))
    await rig.refuse("a1", delay=ZERO)
    await rig.claim()
    await rig.deliver("a1")
    delivered = ["a1"]
    number = BlockedKeys.RELEASED + 50
    while claimed := (await rig.claim(depth=40)).records:
        tokens = {each.partition: each.token for each in claimed}
        number += 1
        await asyncio.gather(
            rig.store.settlements.settle(Settlement(delivered=list(claimed))),
            rig.put(f"a{number}") if number < BlockedKeys.RELEASED + 60 else rig.poll(),
            rig.store.claims.claim(tokens, depth=40),
        )
        delivered += names_of(claimed)
    assert delivered == numbered("a", 1, BlockedKeys.RELEASED + 59)
    assert await rig.gates() == {}


async def test_a_refusal_and_a_takeover_at_once_agree_on_one_of_them(rig: StoreRig) -> None:
    for number in range(10):
        name = f"k{number}-1"
        await rig.put(name)
        [record] = await rig.claimed(name, worker="ann")
        rig.later(3 * LEASE)
        refusal = rig.store.settlements.settle(
            Settlement(attempts=[attempt(record, delay=60 * MINUTE)])
        )
        _, poll = await asyncio.gather(refusal, rig.poll("bob"))
        refused = (await rig.row(name)).retry_count == 1
        # It was refused before bob had the lease, or not at all.
        claim = await rig.store.claims.claim(tokens_of(poll), depth=10)
        assert names_of(claim.records) == ([] if refused else [name])
        await rig.sql("DELETE FROM suite_outbox")
        await rig.store.leases.release("bob")
        await rig.store.leases.release("ann")


async def test_two_operators_can_skip_the_same_record_at_once(rig: StoreRig) -> None:
    await rig.put(*numbered("a", 1, 4))
    await rig.fail("a1")
    await rig.claim()
    ids = await rig.ids("a1")
    await asyncio.gather(*(rig.operations.skip(ids) for _ in range(4)))
    await rig.refuse("a2")
    await asyncio.gather(*(rig.operations.skip(ids) for _ in range(4)))
    assert await rig.open_to_claim() == []
    rig.later(2 * MINUTE)
    assert await rig.drain() == numbered("a", 2, 4)


async def test_a_key_that_is_blocked_while_its_pause_ends_waits_for_the_blocking_record(
    rig: StoreRig,
) -> None:
    await rig.put("a1", "a2", "a3")
    [first] = await rig.claimed("a1")
    await rig.pause("a2")
    await rig.claim(held=[first])
    assert await rig.gates() == {"a": "a2"}
    async with rig.store.database.transaction() as refusing:
        await rig.store.blocked_keys.lock(refusing, [_key("a")])
        resuming = asyncio.create_task(rig.resume())
        await waiter_is_blocked(rig)
        await rig.store.blocked_keys.block(refusing, {_key("a"): first})
    await resuming
    assert await rig.gates() == {"a": "a1"}
    assert await rig.drain() == ["a1", "a2", "a3"]


async def test_a_pause_that_ends_while_its_record_is_being_parked_leaves_nothing_parked(
    rig: StoreRig,
) -> None:
    await rig.put("a1")
    await rig.pause("a1")
    tokens = tokens_of(await rig.poll())
    async with rig.engine.begin() as editor:
        await editor.execute(text("SELECT 1 FROM suite_outbox FOR UPDATE"))
        claiming = asyncio.create_task(rig.store.claims.claim(tokens, depth=10))
        await waiter_is_blocked(rig)  # it has read the pauses
        resuming = asyncio.create_task(rig.resume())

        async def has_ended_or_waits() -> bool:
            return resuming.done() or await blocked_waiters(rig) == 2

        await eventually(has_ended_or_waits)
    await asyncio.gather(claiming, resuming)
    assert await rig.drain() == ["a1"]


async def test_a_key_that_is_blocked_before_its_paused_record_is_parked_stays_blocked(
    rig: StoreRig,
) -> None:
    await rig.put("a1", "a2")
    [first] = await rig.claimed("a1")
    await rig.pause("a2")
    tokens = tokens_of(await rig.poll())
    async with rig.engine.begin() as other:
        await other.execute(text("SELECT 1 FROM suite_outbox_pauses FOR UPDATE"))
        claim = rig.store.claims.claim(tokens, depth=10, held=[first])
        claiming = asyncio.create_task(claim)
        await waiter_is_blocked(rig)
        await rig.store.settlements.settle(Settlement(attempts=[attempt(first, delay=MINUTE)]))
    await claiming
    assert await rig.gates() == {"a": "a1"}
    await rig.resume()
    rig.later(2 * MINUTE)
    assert await rig.drain() == ["a1", "a2"]


async def test_a_paused_record_whose_position_another_one_takes_meanwhile_parks_only_itself(
    rig: StoreRig,
) -> None:
    """As a failover between the two transactions of a claim does."""
    await rig.put("a1", "a2")
    await rig.pause("a1")
    tokens = tokens_of(await rig.poll())
    first = await rig.row("a1")
    async with rig.engine.begin() as other:
        await other.execute(text("SELECT 1 FROM suite_outbox_pauses FOR UPDATE"))
        claiming = asyncio.create_task(rig.store.claims.claim(tokens, depth=10))
        await waiter_is_blocked(rig)  # it has read a1, and not parked it
        await rig.sql("DELETE FROM suite_outbox")
        await rig.put("x1", position=first.position)
        await rig.put("x2", position=first.position + 1)
    await claiming
    assert await rig.gates() == {}
    assert await rig.drain() == ["x1", "x2"]


@pytest.mark.parametrize("kind", ["refused", "slow"])
async def test_a_late_delivery_that_waits_for_the_next_holder_of_the_lease_unblocks_the_key(
    rig: StoreRig, kind: str
) -> None:
    """The next holder blocks the key by the record between the look and the lock of the first."""
    await rig.put("a1", "a2", "b1")
    [late] = await rig.claimed("a1", worker="ann")
    rig.later(3 * LEASE)
    [again] = await rig.claimed("a1", worker="bob")
    late.blocks_key = True  # as a worker says that is not sure of its lease any more
    made = {"attempts": [attempt(again)]} if kind == "refused" else {"slow": [again]}
    async with rig.engine.begin() as other:
        await other.execute(text("SELECT 1 FROM suite_outbox_leases FOR UPDATE"))
        blocking = asyncio.create_task(
            rig.store.settlements.settle(Settlement(worker="bob", **made))
        )
        await waiter_is_blocked(rig)  # it has locked a1, and has not blocked its key
        settling = asyncio.create_task(
            rig.store.settlements.settle(Settlement(worker="ann", delivered=[late]))
        )

        async def both_wait() -> bool:
            return await blocked_waiters(rig) == 2

        await eventually(both_wait)
    await asyncio.gather(blocking, settling)
    assert (await rig.row("a1")).status == "published"
    assert of_key(await rig.drain("bob"), "a") == ["a2"]
    assert await rig.gates() == {}


async def test_one_worker_cleans_up_at_a_time(rig: StoreRig) -> None:
    await rig.put("a1", "b1")
    await rig.deliver("a1")
    await rig.edit("b1", partition=PARTITIONS)
    rig.later(2 * DAY)
    lock = text(rig.store.database.sql.try_lock)
    async with rig.engine.begin() as other:
        assert await other.scalar(lock, {"table": f"postroom {rig.store.database.records}"})
        assert (await rig.store.cleaning.clean(older_than=DAY)).deleted == 0
        assert await rig.store.cleaning.repair() == 0
    assert (await rig.store.cleaning.clean(older_than=DAY)).deleted == 1
    assert await rig.store.cleaning.repair() == 1


async def test_what_is_replayed_while_it_is_cleaned_up_is_not_deleted(rig: StoreRig) -> None:
    await rig.put("a1")
    await rig.deliver("a1")
    rig.later(2 * DAY)
    ids = await rig.ids("a1")
    async with rig.store.database.transaction() as replaying:
        await Changes(rig.store).replay("1", replaying, ids)
        cleaning = asyncio.create_task(rig.store.cleaning.clean(older_than=DAY))
        await waiter_is_blocked(rig)
    assert (await cleaning).deleted == 0
    assert await rig.drain() == ["a1"]


def _key(aggregate_id: str) -> Key:
    return Key("suite", aggregate_id)


async def test_a_migration_while_a_relay_runs_is_over_with_the_next_claims(rig: StoreRig) -> None:
    """PostgreSQL refuses a prepared statement whose result has another type now."""
    await rig.put("a1")
    assert await rig.open_to_claim() == ["a1"]
    try:
        await rig.sql("ALTER TABLE suite_outbox ALTER retry_count TYPE bigint")
        for _ in range(20):  # each connection has statements of its own
            [result] = await asyncio.gather(rig.open_to_claim(), return_exceptions=True)
            if not isinstance(result, Exception):
                break
            assert database_outage(result)
        assert result == ["a1"]
    finally:
        await rig.sql("ALTER TABLE suite_outbox ALTER retry_count TYPE integer")
        await rig.engine.dispose()  # those who follow share it


async def test_a_worker_that_is_frozen_before_its_commit_locks_its_leases_no_longer_than_it_may(
    rig: StoreRig,
) -> None:
    await fill(rig)
    second = timedelta(seconds=1)
    store = rig.another_store(lease=second)
    # What the server answers when it has ended the transaction, or asyncpg in its place.
    with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        async with store.database.transaction() as run:
            await run(text("UPDATE suite_outbox_leases SET token = token + 1"))  # and no further

            async def bob_has_all() -> bool:
                poll = await rig.store.leases.poll("bob", lease=second)
                return len(poll.leases) == PARTITIONS

            await eventually(bob_has_all)


async def test_connections_of_a_relay_say_whose_they_are_unless_the_application_has(
    rig: StoreRig,
) -> None:
    [row] = await rig.sql("SELECT current_setting('application_name') AS name")
    assert row.name == "postroom suite_outbox"
