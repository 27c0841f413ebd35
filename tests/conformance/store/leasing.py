"""Who serves which partition."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import MetaData, Row, select

from postroom import Outbox, OutboxRecord
from postroom.errors import SchemaError
from postroom.record import PARTITIONS
from postroom.store.base import Settlement
from tests.conformance.store.desk import (
    LEASE,
    MINUTE,
    Desk,
    StoreHarness,
    attempt,
    partition_of,
    tokens_of,
    workers,
)
from tests.support.statements import noted_statements

PAST_IT = LEASE + timedelta(seconds=1)


class AbsentRecord(OutboxRecord):
    """Of tables that nobody has created."""


async def worker_rows(desk: Desk, worker: str) -> list[Row[Any]]:
    async with desk.engine.connect() as connection:
        return list(await connection.execute(select(workers).where(workers.c.worker == worker)))


absent = Outbox(MetaData(), table="absent_outbox", record=AbsentRecord)


async def held_by(desk: Desk, worker: str) -> set[int]:
    found = await desk.sql(
        "SELECT partition FROM suite_outbox_leases WHERE worker = :worker", worker=worker
    )
    return {row.partition for row in found}


async def fill(desk: Desk, *partitions: int) -> None:
    for partition in partitions:
        await desk.put(f".{partition}", partition=partition)


class Leasing:
    """Opening and polling."""

    async def test_opening_makes_a_lease_for_every_partition_once(self, desk: Desk) -> None:
        await desk.store.open()
        await desk.another_store().open()
        [row] = await desk.sql(
            "SELECT count(*) AS n, min(partition) AS low, max(partition) AS high,"
            " max(token) AS token FROM suite_outbox_leases"
        )
        assert tuple(row) == (PARTITIONS, 0, PARTITIONS - 1, 0)

    async def test_opening_leaves_tokens_as_they_are(self, desk: Desk) -> None:
        await fill(desk, 3)
        before = tokens_of(await desk.poll())
        await desk.store.open()
        assert tokens_of(await desk.poll()) == before

    async def test_opening_without_tables_says_so(self, desk: Desk) -> None:
        store = type(desk.store)(desk.engine, absent.tables)
        with pytest.raises(SchemaError, match="absent_outbox"):
            await store.open()

    async def test_an_idle_poll_is_one_query_and_takes_nothing(self, desk: Desk) -> None:
        with noted_statements() as sent:
            poll = await desk.poll()
        assert (poll.leases, poll.waiting, poll.next_due) == ((), 0, None)
        assert len(sent) == 1

    async def test_a_poll_is_one_query_while_everything_waits_for_its_time(
        self, desk: Desk
    ) -> None:
        await desk.put("a1", ready=False, due_at=desk.now() + MINUTE)
        with noted_statements() as sent:
            poll = await desk.poll()
        assert poll.leases == ()
        assert len(sent) == 1

    async def test_partitions_with_work_are_taken_and_no_others(self, desk: Desk) -> None:
        await fill(desk, 3, 60)
        poll = await desk.poll()
        assert tokens_of(poll) == {3: 1, 60: 1}
        assert poll.waiting == 2
        assert await held_by(desk, "ann") == {3, 60}

    async def test_what_is_due_is_work_and_what_is_not_yet_is_none(self, desk: Desk) -> None:
        await desk.put(".1", partition=1, ready=False, due_at=desk.now() - MINUTE)
        await desk.put(".2", partition=2, ready=False, due_at=desk.now() + MINUTE)
        assert set(tokens_of(await desk.poll())) == {1}
        desk.later(2 * MINUTE)
        assert set(tokens_of(await desk.poll())) == {1, 2}

    async def test_delivered_failed_and_held_records_are_no_work(self, desk: Desk) -> None:
        await desk.put("a1", "a2", "b1")
        await desk.fail("a1")
        assert await desk.open_to_claim() == ["b1"]  # a2 is parked
        await desk.deliver("b1")
        assert (await desk.poll()).leases == ()

    async def test_it_tells_how_long_until_the_next_record_is_due(self, desk: Desk) -> None:
        for partition, minutes in ((5, 3), (5, 7), (6, 2), (7, 30)):
            due = desk.now() + minutes * MINUTE
            await desk.put(f".{partition}{minutes}", partition=partition, ready=False, due_at=due)
        next_due = (await desk.poll()).next_due
        assert next_due is not None
        assert 1.9 * MINUTE < next_due <= 2 * MINUTE

    async def test_what_is_due_already_is_not_what_comes_next(self, desk: Desk) -> None:
        await desk.put(".1", partition=1, ready=False, due_at=desk.now() - MINUTE)
        await desk.put(".2", partition=2, ready=False, due_at=desk.now() + MINUTE)
        next_due = (await desk.poll()).next_due
        assert next_due is not None
        assert next_due > timedelta()

    async def test_a_lease_is_renewed_under_the_same_token(self, desk: Desk) -> None:
        await fill(desk, 3)
        first = await desk.poll()
        desk.later(LEASE - timedelta(seconds=5))
        assert await desk.poll() == first
        desk.later(LEASE - timedelta(seconds=5))
        assert (await desk.poll("bob")).leases == ()

    async def test_a_partition_without_work_is_given_back(self, desk: Desk) -> None:
        await desk.put("a1")
        await desk.deliver("a1")
        assert (await desk.poll()).leases == ()
        assert await held_by(desk, "ann") == set()

    async def test_a_busy_partition_is_never_given_back(self, desk: Desk) -> None:
        await desk.put("a1")
        partition = partition_of("a1")
        await desk.deliver("a1")
        for retiring in ((), (partition,)):
            poll = await desk.poll(busy=[partition], surplus=retiring)
            assert set(tokens_of(poll)) == {partition}

    async def test_a_retiring_partition_goes_once_it_is_idle(self, desk: Desk) -> None:
        await fill(desk, 3, 4)
        tokens = tokens_of(await desk.poll())
        assert tokens_of(await desk.poll(busy=[3], surplus=[3])) == tokens
        await desk.poll(surplus=[3])
        assert await held_by(desk, "ann") <= {4}
        assert tokens_of(await desk.poll("bob")) in ({}, {3: tokens[3] + 1})

    async def test_who_only_finishes_keeps_what_is_busy_and_takes_nothing(self, desk: Desk) -> None:
        await fill(desk, 3, 4)
        tokens = tokens_of(await desk.poll())
        await fill(desk, 5)
        assert tokens_of(await desk.poll(busy=[3], take=False)) == {3: tokens[3]}
        assert await held_by(desk, "ann") == {3}
        assert (await desk.poll("cyd", take=False)).leases == ()

    async def test_an_expired_lease_is_taken_over_and_counts_a_crash(self, desk: Desk) -> None:
        await fill(desk, 3)
        [first] = (await desk.poll()).leases
        desk.later(PAST_IT)
        [second] = (await desk.poll("bob")).leases
        assert second.token > first.token
        assert (first.crash_count, second.crash_count) == (0, 1)
        desk.later(PAST_IT)
        [third] = (await desk.poll("cyd")).leases
        assert (third.token > second.token, third.crash_count) == (True, 2)

    async def test_nobody_takes_a_lease_that_has_not_expired(self, desk: Desk) -> None:
        await fill(desk, 3)
        await desk.poll()
        desk.later(LEASE - timedelta(seconds=1))
        assert (await desk.poll("bob")).leases == ()

    async def test_an_expired_lease_that_nobody_took_is_renewed(self, desk: Desk) -> None:
        await fill(desk, 3)
        first = await desk.poll()
        desk.later(10 * LEASE)
        assert await desk.poll() == first
        assert (await desk.poll("bob")).leases == ()

    async def test_who_lost_a_lease_does_not_get_it_back_by_asking(self, desk: Desk) -> None:
        await fill(desk, 3)
        await desk.poll()
        desk.later(PAST_IT)
        await desk.poll("bob")
        assert (await desk.poll(busy=[3])).leases == ()

    async def test_leases_that_are_given_back_count_no_crash(self, desk: Desk) -> None:
        await fill(desk, 3)
        await desk.poll()
        desk.later(PAST_IT)
        await desk.poll("bob")
        await desk.store.leases.release("bob")
        [lease] = (await desk.poll("cyd")).leases
        assert (lease.token, lease.crash_count) == (
            3,
            1,
        )  # that of before: nobody has served it since

    async def test_who_leaves_gives_back_what_is_its_own(self, desk: Desk) -> None:
        await fill(desk, 3)
        await desk.poll("bob")
        await desk.store.leases.release("ann")
        assert await held_by(desk, "bob") == {3}

    @pytest.mark.requirement("E1")
    async def test_a_worker_that_lost_its_leases_and_shows_up_again_has_not_crashed(
        self, desk: Desk
    ) -> None:
        await fill(desk, 3)
        await desk.poll("ann")
        desk.later(PAST_IT)
        [taken] = (await desk.poll("bob")).leases
        assert taken.crash_count == 1
        assert await desk.store.leases.renew("ann", LEASE) == {}
        [kept] = (await desk.poll("bob")).leases
        assert (kept.crash_count, kept.token) == (0, taken.token)
        await desk.store.leases.renew("ann", LEASE)
        [kept] = (await desk.poll("bob")).leases
        assert kept.crash_count == 0

    async def test_a_heartbeat_renews_the_leases_of_its_worker(self, desk: Desk) -> None:
        await fill(desk, 3, 4)
        tokens = tokens_of(await desk.poll("ann"))
        desk.later(LEASE / 2)
        assert await desk.store.leases.renew("ann", LEASE) == tokens
        desk.later(LEASE / 2 + timedelta(seconds=5))
        assert (await desk.poll("bob")).leases == ()
        assert await desk.store.leases.renew("bob", LEASE) == {}

    @pytest.mark.requirement("E1")
    async def test_a_lease_further_ahead_than_its_length_is_not_believed(self, desk: Desk) -> None:
        await fill(desk, 3)
        desk.later(timedelta(hours=1))
        await desk.poll("ann")
        desk.later(timedelta(hours=-1))  # the clock was set back
        [lease] = (await desk.poll("bob")).leases
        assert lease.crash_count == 0

    async def test_a_poll_names_the_worker_that_misses_its_heartbeats(self, desk: Desk) -> None:
        await fill(desk, 3, 4)
        await desk.poll("ann")
        assert (await desk.poll("bob")).unattended == ()
        desk.later(timedelta(seconds=6))
        [unattended] = (await desk.poll("bob")).unattended
        assert (unattended.worker, unattended.partitions) == ("ann", 2)
        left = unattended.until - desk.now()
        assert timedelta() < left < LEASE
        assert "2 partitions with work leased to worker ann until " in str(unattended)
        desk.later(LEASE)
        assert (await desk.poll("bob")).unattended == ()

    async def test_a_suspect_is_remembered_by_whoever_takes_over(self, desk: Desk) -> None:
        await desk.put("a1")
        [record] = await desk.claimed("a1")
        assert await desk.store.leases.suspect("ann", {record: 1}) == [record]
        desk.later(PAST_IT)
        [lease] = (await desk.poll("bob")).leases
        assert (lease.suspect, lease.suspect_crashes) == (record.position, 1)
        [again] = await desk.claimed("a1", worker="bob")
        assert await desk.store.leases.suspect("bob", {again: 2}) == [again]
        desk.later(PAST_IT)
        [lease] = (await desk.poll("cyd")).leases
        assert (lease.suspect, lease.suspect_crashes, lease.crash_count) == (record.position, 2, 2)

    async def test_each_partition_has_a_suspect_of_its_own(self, desk: Desk) -> None:
        await desk.put(".1", partition=1)
        await desk.put(".2", partition=2)
        one, two = await desk.claimed(".1", ".2")
        await desk.store.leases.suspect("ann", {one: 1, two: 1})
        desk.later(PAST_IT)
        suspects = {lease.partition: lease.suspect for lease in (await desk.poll("bob")).leases}
        expected = {1: one.position, 2: two.position}
        assert suspects == {partition: expected[partition] for partition in suspects}

    async def test_without_the_lease_nobody_is_suspected(self, desk: Desk) -> None:
        await desk.put("a1")
        [record] = await desk.claimed("a1")
        desk.later(PAST_IT)
        await desk.poll("bob")
        assert await desk.store.leases.suspect("ann", {record: 1}) == []
        desk.later(PAST_IT)
        [lease] = (await desk.poll("cyd")).leases
        assert lease.suspect is None

    async def test_calm_forgets_the_crashes(self, desk: Desk) -> None:
        await desk.put("a1")
        await desk.store.leases.suspect("ann", {(await desk.claimed("a1"))[0]: 1})
        desk.later(PAST_IT)
        await desk.poll("bob")
        await desk.store.leases.clear_crashes("bob", [partition_of("a1")])
        [lease] = (await desk.poll("bob")).leases
        assert (lease.crash_count, lease.suspect, lease.suspect_crashes) == (0, None, 0)

    async def test_calm_is_not_for_those_who_lost_the_lease(self, desk: Desk) -> None:
        await fill(desk, 3)
        await desk.poll()
        desk.later(PAST_IT)
        await desk.poll("bob")
        await desk.store.leases.clear_crashes("ann", [3])
        [lease] = (await desk.poll("bob")).leases
        assert lease.crash_count == 1

    async def test_workers_divide_the_work_or_the_first_takes_all(
        self, desk: Desk, harness: StoreHarness
    ) -> None:
        await fill(desk, *range(10))
        await desk.poll("ann")
        bob = await desk.poll("bob")
        assert bob.leases == ()  # all is ann's still
        poll = await desk.poll("ann")
        assert poll.waiting == 10
        assert poll.share == 5 if harness.shares_work else poll.share >= 10

    async def test_what_is_retired_goes_to_the_newcomer(
        self, desk: Desk, harness: StoreHarness
    ) -> None:
        await fill(desk, *range(10))
        await desk.poll("ann")
        await desk.poll("bob")
        await desk.poll("ann", surplus=range(5))
        bob = set(tokens_of(await desk.poll("bob")))
        assert bob == set(range(5)) if harness.shares_work else bob <= set(range(5))
        assert await held_by(desk, "ann") & bob == set()

    async def test_the_share_grows_when_others_leave_or_die(
        self, desk: Desk, harness: StoreHarness
    ) -> None:
        await fill(desk, *range(12))
        for worker in ("ann", "bob", "cyd"):
            await desk.poll(worker)
        shares = [(await desk.poll("ann")).share]
        await desk.store.leases.release("bob")
        shares.append((await desk.poll("ann")).share)
        desk.later(3 * LEASE)  # cyd is not heard of again
        poll = await desk.poll("ann")
        assert (len(poll.leases), poll.share >= 12) == (12, True)
        assert shares == [4, 6] if harness.shares_work else min(shares) >= 12

    async def test_a_newcomer_takes_no_more_than_its_share(
        self, desk: Desk, harness: StoreHarness
    ) -> None:
        for worker in ("ann", "bob"):
            await desk.poll(worker)
        await fill(desk, *range(11))
        ann = len((await desk.poll("ann")).leases)
        bob = len((await desk.poll("bob")).leases)
        assert (ann, bob) == ((6, 5) if harness.shares_work else (11, 0))

    async def test_the_longest_unserved_partitions_are_taken_first(
        self, desk: Desk, harness: StoreHarness
    ) -> None:
        await fill(desk, 1, 2)
        await desk.poll("ann")
        await desk.poll("bob")  # which halves the share
        await desk.store.leases.release("ann")
        desk.later(timedelta(seconds=1))
        await fill(desk, 40, 41)
        taken = set(tokens_of(await desk.poll("ann")))
        assert taken == ({40, 41} if harness.shares_work else {1, 2, 40, 41})

    async def test_a_report_is_kept_beside_the_presence_of_a_worker(self, desk: Desk) -> None:
        await desk.store.leases.report("ann", {"in_flight": 3, "publisher": 'it\'s "the" \\gate'})
        assert (await desk.poll("bob")).share == PARTITIONS  # ann reports, and shares no work
        await desk.put("a1")
        await desk.poll("ann")
        await desk.store.leases.report("ann", {"in_flight": 0})
        [row] = await worker_rows(desk, "ann")
        assert row.report == {"in_flight": 0}
        assert row.reported_at is not None
        await desk.store.leases.release("ann")
        assert await worker_rows(desk, "ann") == []

    async def test_two_settlements_and_a_poll_do_not_disturb_each_other(self, desk: Desk) -> None:
        await desk.put("a1", "b1")
        a1, b1 = await desk.claimed("a1", "b1")
        await desk.store.settlements.settle(Settlement(attempts=[attempt(a1)], delivered=[b1]))
        await desk.store.settlements.settle(Settlement(attempts=[attempt(a1)], delivered=[b1]))
        assert (await desk.poll()).leases == ()
