"""Who serves which partition."""

import os
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import MetaData, Row, select

from postroom import Outbox, OutboxRecord
from postroom.errors import SchemaError
from postroom.process import process_name
from postroom.record import PARTITIONS
from postroom.store.base import Settlement, Verdict
from tests.conformance.store.rig import (
    LEASE,
    MINUTE,
    StoreHarness,
    StoreRig,
    attempt,
    partition_of,
    tokens_of,
    workers,
)
from tests.support.statements import noted_statements

PAST_IT = LEASE + timedelta(seconds=1)
RUNS = f"here:{process_name()}ab12cd34"
ENDED = RUNS.replace(f":{os.getpid()}:", f":{2**22 + 1}:")
"""Workers: of a process that runs, and of one that cannot be there."""


class AbsentRecord(OutboxRecord):
    """Of tables that nobody has created."""


async def worker_rows(rig: StoreRig, worker: str) -> list[Row[Any]]:
    async with rig.engine.connect() as connection:
        return list(await connection.execute(select(workers).where(workers.c.worker == worker)))


absent = Outbox(MetaData(), table="absent_outbox", record=AbsentRecord)


async def held_by(rig: StoreRig, worker: str) -> set[int]:
    found = await rig.sql(
        "SELECT partition FROM suite_outbox_leases WHERE worker = :worker", worker=worker
    )
    return {row.partition for row in found}


async def fill(rig: StoreRig, *partitions: int) -> None:
    for partition in partitions:
        await rig.put(f".{partition}", partition=partition)


async def died(rig: StoreRig, worker: str, then: str) -> list[tuple[UUID | None, int, int]]:
    """Have a worker die; give what the one that takes over knows of the suspects, and crashes."""
    assert await held_by(rig, worker)
    rig.later(PAST_IT)
    poll = await rig.poll(then)
    return [(each.suspect, each.suspect_crashes, each.crash_count) for each in poll.leases]


async def blamed(rig: StoreRig) -> set[tuple[int, int, int]]:
    """Give the partitions that crashes are held against: of their suspects, and in a row."""
    found = await rig.sql(
        "SELECT partition, suspect_crashes, crash_count FROM suite_outbox_leases"
        " WHERE crash_count > 0 OR suspect IS NOT NULL"
    )
    return {(row.partition, row.suspect_crashes, row.crash_count) for row in found}


class Leasing:
    """Opening and polling."""

    async def test_opening_makes_a_lease_for_every_partition_once(self, rig: StoreRig) -> None:
        await rig.store.open()
        await rig.another_store().open()
        [row] = await rig.sql(
            "SELECT count(*) AS n, min(partition) AS low, max(partition) AS high,"
            " max(token) AS token FROM suite_outbox_leases"
        )
        assert tuple(row) == (PARTITIONS, 0, PARTITIONS - 1, 0)

    async def test_leases_that_somebody_has_deleted_are_made_again(self, rig: StoreRig) -> None:
        await fill(rig, 3)
        await rig.sql("DELETE FROM suite_outbox_leases")
        assert (await rig.poll("one")).leases == ()
        poll = await rig.poll("one")
        assert [each.partition for each in poll.leases] == [3]

    async def test_opening_leaves_tokens_as_they_are(self, rig: StoreRig) -> None:
        await fill(rig, 3)
        before = tokens_of(await rig.poll())
        await rig.store.open()
        assert tokens_of(await rig.poll()) == before

    async def test_opening_without_tables_says_so(self, rig: StoreRig) -> None:
        store = type(rig.store)(rig.engine, absent.tables)
        with pytest.raises(SchemaError, match="absent_outbox"):
            await store.open()

    async def test_an_idle_poll_is_one_query_and_takes_nothing(self, rig: StoreRig) -> None:
        with noted_statements() as sent:
            poll = await rig.poll()
        assert (poll.leases, poll.waiting, poll.next_due) == ((), 0, None)
        assert len(sent) == 1

    async def test_a_poll_is_one_query_while_everything_waits_for_its_time(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", ready=False, due_at=rig.now() + MINUTE)
        with noted_statements() as sent:
            poll = await rig.poll()
        assert poll.leases == ()
        assert len(sent) == 1

    async def test_partitions_with_work_are_taken_and_no_others(self, rig: StoreRig) -> None:
        await fill(rig, 3, 60)
        poll = await rig.poll()
        assert tokens_of(poll) == {3: 1, 60: 1}
        assert poll.waiting == 2
        assert await held_by(rig, "ann") == {3, 60}

    async def test_what_is_due_is_work_and_what_is_not_yet_is_none(self, rig: StoreRig) -> None:
        await rig.put(".1", partition=1, ready=False, due_at=rig.now() - MINUTE)
        await rig.put(".2", partition=2, ready=False, due_at=rig.now() + MINUTE)
        assert set(tokens_of(await rig.poll())) == {1}
        rig.later(2 * MINUTE)
        assert set(tokens_of(await rig.poll())) == {1, 2}

    async def test_delivered_failed_and_held_records_are_no_work(self, rig: StoreRig) -> None:
        await rig.put("a1", "a2", "b1")
        await rig.fail("a1")
        assert await rig.open_to_claim() == ["b1"]  # a2 is parked
        await rig.deliver("b1")
        assert (await rig.poll()).leases == ()

    async def test_it_tells_how_long_until_the_next_record_is_due(self, rig: StoreRig) -> None:
        for partition, minutes in ((5, 3), (5, 7), (6, 2), (7, 30)):
            due = rig.now() + minutes * MINUTE
            await rig.put(f".{partition}{minutes}", partition=partition, ready=False, due_at=due)
        next_due = (await rig.poll()).next_due
        assert next_due is not None
        assert 1.9 * MINUTE < next_due <= 2 * MINUTE

    async def test_what_is_due_already_is_not_what_comes_next(self, rig: StoreRig) -> None:
        await rig.put(".1", partition=1, ready=False, due_at=rig.now() - MINUTE)
        await rig.put(".2", partition=2, ready=False, due_at=rig.now() + MINUTE)
        next_due = (await rig.poll()).next_due
        assert next_due is not None
        assert next_due > timedelta()

    async def test_a_lease_is_renewed_under_the_same_token(self, rig: StoreRig) -> None:
        await fill(rig, 3)
        first = await rig.poll()
        rig.later(LEASE - timedelta(seconds=5))
        assert await rig.poll() == first
        rig.later(LEASE - timedelta(seconds=5))
        assert (await rig.poll("bob")).leases == ()

    async def test_a_partition_without_work_is_given_back(self, rig: StoreRig) -> None:
        await rig.put("a1")
        await rig.deliver("a1")
        assert (await rig.poll()).leases == ()
        assert await held_by(rig, "ann") == set()

    async def test_a_busy_partition_is_never_given_back(self, rig: StoreRig) -> None:
        await rig.put("a1")
        partition = partition_of("a1")
        await rig.deliver("a1")
        for retiring in ((), (partition,)):
            poll = await rig.poll(busy=[partition], surplus=retiring)
            assert set(tokens_of(poll)) == {partition}

    async def test_a_retiring_partition_goes_once_it_is_idle(self, rig: StoreRig) -> None:
        await fill(rig, 3, 4)
        tokens = tokens_of(await rig.poll())
        assert tokens_of(await rig.poll(busy=[3], surplus=[3])) == tokens
        await rig.poll(surplus=[3])
        assert await held_by(rig, "ann") <= {4}
        assert tokens_of(await rig.poll("bob")) in ({}, {3: tokens[3] + 1})

    async def test_who_only_finishes_keeps_what_is_busy_and_takes_nothing(
        self, rig: StoreRig
    ) -> None:
        await fill(rig, 3, 4)
        tokens = tokens_of(await rig.poll())
        await fill(rig, 5)
        assert tokens_of(await rig.poll(busy=[3], take=False)) == {3: tokens[3]}
        assert await held_by(rig, "ann") == {3}
        assert (await rig.poll("cyd", take=False)).leases == ()

    async def test_an_expired_lease_is_taken_over_and_counts_a_crash(self, rig: StoreRig) -> None:
        await fill(rig, 3)
        [first] = (await rig.poll()).leases
        rig.later(PAST_IT)
        [second] = (await rig.poll("bob")).leases
        assert second.token > first.token
        assert (first.crash_count, second.crash_count) == (0, 1)
        rig.later(PAST_IT)
        [third] = (await rig.poll("cyd")).leases
        assert (third.token > second.token, third.crash_count) == (True, 2)

    async def test_nobody_takes_a_lease_that_has_not_expired(self, rig: StoreRig) -> None:
        await fill(rig, 3)
        await rig.poll()
        rig.later(LEASE - timedelta(seconds=1))
        assert (await rig.poll("bob")).leases == ()

    @pytest.mark.requirement("E1")
    @pytest.mark.parametrize(
        ("worker", "crashes"), [(RUNS, []), (ENDED, [1])], ids=["runs", "ended"]
    )
    async def test_the_lease_of_a_process_is_taken_over_at_once_if_that_has_ended(
        self, rig: StoreRig, worker: str, crashes: list[int]
    ) -> None:
        await fill(rig, 3)
        assert (await rig.poll(worker)).leases
        leases = (await rig.poll("bob")).leases
        assert [lease.crash_count for lease in leases] == crashes

    async def test_an_expired_lease_that_nobody_took_is_renewed(self, rig: StoreRig) -> None:
        await fill(rig, 3)
        first = await rig.poll()
        rig.later(10 * LEASE)
        assert await rig.poll() == first
        assert (await rig.poll("bob")).leases == ()

    async def test_who_lost_a_lease_does_not_get_it_back_by_asking(self, rig: StoreRig) -> None:
        await fill(rig, 3)
        await rig.poll()
        rig.later(PAST_IT)
        await rig.poll("bob")
        assert (await rig.poll(busy=[3])).leases == ()

    async def test_leases_that_are_given_back_count_no_crash(self, rig: StoreRig) -> None:
        await fill(rig, 3)
        await rig.poll()
        rig.later(PAST_IT)
        await rig.poll("bob")
        await rig.store.leases.release("bob")
        [lease] = (await rig.poll("cyd")).leases
        assert (lease.token, lease.crash_count) == (
            3,
            1,
        )  # that of before: nobody has served it since

    @pytest.mark.requirement("E1")
    async def test_a_crash_is_forgotten_once_all_work_of_the_partition_is_done(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1")
        await rig.poll("ann")
        rig.later(PAST_IT)
        [record] = await rig.claimed("a1", worker="bob")
        await rig.store.leases.suspect("bob", {record: 0})
        await rig.deliver("a1", worker="bob")
        assert (await rig.poll("bob")).leases == ()
        await rig.put("a2")
        [lease] = (await rig.poll("bob")).leases
        assert (lease.crash_count, lease.suspect, lease.suspect_crashes) == (0, None, 0)

    async def test_who_leaves_gives_back_what_is_its_own(self, rig: StoreRig) -> None:
        await fill(rig, 3)
        await rig.poll("bob")
        await rig.store.leases.release("ann")
        assert await held_by(rig, "bob") == {3}

    @pytest.mark.requirement("E1")
    async def test_a_worker_that_lost_its_leases_and_shows_up_again_has_not_crashed(
        self, rig: StoreRig
    ) -> None:
        await fill(rig, 3)
        await rig.poll("ann")
        rig.later(PAST_IT)
        [taken] = (await rig.poll("bob")).leases
        assert taken.crash_count == 1
        assert await rig.store.leases.renew("ann", LEASE) == {}
        [kept] = (await rig.poll("bob")).leases
        assert (kept.crash_count, kept.token) == (0, taken.token)
        await rig.store.leases.renew("ann", LEASE)
        [kept] = (await rig.poll("bob")).leases
        assert kept.crash_count == 0

    async def test_a_heartbeat_renews_the_leases_of_its_worker(self, rig: StoreRig) -> None:
        await fill(rig, 3, 4)
        tokens = tokens_of(await rig.poll("ann"))
        rig.later(LEASE / 2)
        assert await rig.store.leases.renew("ann", LEASE) == tokens
        rig.later(LEASE / 2 + timedelta(seconds=5))
        assert (await rig.poll("bob")).leases == ()
        assert await rig.store.leases.renew("bob", LEASE) == {}

    @pytest.mark.requirement("E1")
    async def test_a_lease_further_ahead_than_its_length_is_not_believed(
        self, rig: StoreRig
    ) -> None:
        await fill(rig, 3)
        rig.later(timedelta(hours=1))
        await rig.poll("ann")
        rig.later(timedelta(hours=-1))  # the clock was set back
        assert len((await rig.poll("bob")).leases) == 1

    @pytest.mark.requirement("E1")
    async def test_a_suspect_is_remembered_by_whoever_takes_over(self, rig: StoreRig) -> None:
        await rig.put("a1")
        [record] = await rig.claimed("a1")
        assert await rig.store.leases.suspect("ann", {record: 0}) == [record]
        assert await died(rig, "ann", then="bob") == [(record.record.id, 1, 1)]
        [again] = await rig.claimed("a1", worker="bob")
        assert await rig.store.leases.suspect("bob", {again: 1}) == [again]
        assert await died(rig, "bob", then="cyd") == [(record.record.id, 2, 2)]

    async def test_each_partition_has_a_suspect_of_its_own(self, rig: StoreRig) -> None:
        await rig.put(".1", partition=1)
        await rig.put(".2", partition=2)
        one, two = await rig.claimed(".1", ".2")
        await rig.store.leases.suspect("ann", {one: 0, two: 0})
        rig.later(PAST_IT)
        suspects = {lease.partition: lease.suspect for lease in (await rig.poll("bob")).leases}
        expected = {1: one.record.id, 2: two.record.id}
        assert suspects == {partition: expected[partition] for partition in suspects}

    async def test_without_the_lease_nobody_is_suspected(self, rig: StoreRig) -> None:
        await rig.put("a1")
        [record] = await rig.claimed("a1")
        rig.later(PAST_IT)
        await rig.poll("bob")
        assert await rig.store.leases.suspect("ann", {record: 0}) == []
        assert await died(rig, "bob", then="cyd") == [(None, 0, 2)]

    @pytest.mark.requirement("E1")
    async def test_a_suspect_that_was_not_in_flight_when_a_worker_died_is_cleared(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1")
        [record] = await rig.claimed("a1")
        await rig.store.leases.suspect("ann", {record: 2})
        found = [await died(rig, "ann", then="bob"), await died(rig, "bob", then="cyd")]
        assert found == [[(record.record.id, 3, 1)], [(None, 0, 2)]]
        assert await died(rig, "cyd", then="dee") == [(None, 0, 3)]
        assert await died(rig, "dee", then="eve") == [(None, 0, 0)]  # what was in flight was tried

    @pytest.mark.requirement("E1")
    async def test_a_death_that_no_suspect_explains_clears_all_other_partitions(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1")
        [record] = await rig.claimed("a1")
        await rig.store.leases.suspect("ann", {record: 3})
        await died(rig, "ann", then="bob")
        await rig.store.leases.release("bob")
        assert await blamed(rig) == {(partition_of("a1"), 4, 1)}
        await rig.edit("a1", ready=False)
        await fill(rig, 50)
        await rig.poll("cyd")
        await died(rig, "cyd", then="dee")
        assert await blamed(rig) == {(50, 0, 1)}

    @pytest.mark.requirement("E1")
    async def test_a_worker_that_releases_its_leases_leaves_no_record_in_flight(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1")
        [record] = await rig.claimed("a1")
        await rig.store.leases.suspect("ann", {record: 0})
        await rig.store.leases.release("ann")
        [lease] = (await rig.poll("bob")).leases
        assert (lease.suspect, lease.suspect_crashes) == (None, 0)

    @pytest.mark.requirement("E1")
    async def test_a_worker_that_is_told_to_stop_clears_every_suspect(self, rig: StoreRig) -> None:
        await rig.put("a1")
        await rig.store.leases.suspect("ann", {(await rig.claimed("a1"))[0]: 3})
        await died(rig, "ann", then="bob")
        await rig.store.leases.release("cyd")
        assert (await rig.poll("bob")).leases[0].suspect_crashes == 4
        await rig.store.leases.release("cyd", acquits=True)
        [lease] = (await rig.poll("bob")).leases
        assert (lease.crash_count, lease.suspect, lease.suspect_crashes) == (0, None, 0)

    async def test_calm_forgets_the_crashes(self, rig: StoreRig) -> None:
        await rig.put("a1")
        await rig.store.leases.suspect("ann", {(await rig.claimed("a1"))[0]: 1})
        await died(rig, "ann", then="bob")
        await rig.store.leases.acquit([partition_of("a1")])
        [lease] = (await rig.poll("bob")).leases
        assert (lease.crash_count, lease.suspect, lease.suspect_crashes) == (0, None, 0)

    @pytest.mark.requirement("E1")
    async def test_what_is_proven_stays_when_all_else_is_forgotten(self, rig: StoreRig) -> None:
        await rig.put("a1")
        await rig.put(".2", partition=50)
        guilty, other = await rig.claimed("a1", ".2")
        await rig.store.leases.suspect("ann", {guilty: 3, other: 1})
        await died(rig, "ann", then="bob")
        assert await blamed(rig) == {(partition_of("a1"), 4, 1), (50, 2, 1)}
        await rig.store.leases.acquit(range(PARTITIONS), proven=3)
        assert await blamed(rig) == {(partition_of("a1"), 3, 0)}

    @pytest.mark.requirement("E1")
    async def test_a_record_that_kills_while_another_one_is_quarantined_is_blamed_for_that(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1")
        [record] = await rig.claimed("a1")
        await rig.store.leases.suspect("ann", {record: 3})
        await rig.store.leases.acquit(range(PARTITIONS), proven=3)  # by another worker
        assert await died(rig, "ann", then="bob") == [(record.record.id, 4, 1)]

    async def test_the_history_tells_how_often_a_record_was_quarantined(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1")
        for times in range(3):
            [record] = await rig.claimed("a1")
            assert await rig.store.leases.quarantines(record) == times
            quarantined = replace(attempt(record), verdict=Verdict.QUARANTINED)
            await rig.store.settlements.settle(Settlement(worker="ann", attempts=[quarantined]))
            rig.later(2 * MINUTE)

    async def test_workers_divide_the_work_or_the_first_takes_all(
        self, rig: StoreRig, harness: StoreHarness
    ) -> None:
        await fill(rig, *range(10))
        await rig.poll("ann")
        bob = await rig.poll("bob")
        assert bob.leases == ()  # all is ann's still
        poll = await rig.poll("ann")
        assert poll.waiting == 10
        assert poll.share == 5 if harness.shares_work else poll.share >= 10

    async def test_what_is_retired_goes_to_the_newcomer(
        self, rig: StoreRig, harness: StoreHarness
    ) -> None:
        await fill(rig, *range(10))
        await rig.poll("ann")
        await rig.poll("bob")
        await rig.poll("ann", surplus=range(5))
        bob = set(tokens_of(await rig.poll("bob")))
        assert bob == set(range(5)) if harness.shares_work else bob <= set(range(5))
        assert await held_by(rig, "ann") & bob == set()

    async def test_the_share_grows_when_others_leave_or_die(
        self, rig: StoreRig, harness: StoreHarness
    ) -> None:
        await fill(rig, *range(12))
        for worker in ("ann", "bob", "cyd"):
            await rig.poll(worker)
        shares = [(await rig.poll("ann")).share]
        await rig.store.leases.release("bob")
        shares.append((await rig.poll("ann")).share)
        rig.later(3 * LEASE)  # cyd is not heard of again
        poll = await rig.poll("ann")
        assert (len(poll.leases), poll.share >= 12) == (12, True)
        assert shares == [4, 6] if harness.shares_work else min(shares) >= 12

    async def test_a_newcomer_takes_no_more_than_its_share(
        self, rig: StoreRig, harness: StoreHarness
    ) -> None:
        for worker in ("ann", "bob"):
            await rig.poll(worker)
        await fill(rig, *range(11))
        ann = len((await rig.poll("ann")).leases)
        bob = len((await rig.poll("bob")).leases)
        assert (ann, bob) == ((6, 5) if harness.shares_work else (11, 0))

    async def test_the_longest_unserved_partitions_are_taken_first(
        self, rig: StoreRig, harness: StoreHarness
    ) -> None:
        await fill(rig, 1, 2)
        await rig.poll("ann")
        await rig.poll("bob")  # which halves the share
        await rig.store.leases.release("ann")
        rig.later(timedelta(seconds=1))
        await fill(rig, 40, 41)
        taken = set(tokens_of(await rig.poll("ann")))
        assert taken == ({40, 41} if harness.shares_work else {1, 2, 40, 41})

    async def test_a_report_is_kept_beside_the_presence_of_a_worker(self, rig: StoreRig) -> None:
        await rig.store.leases.report("ann", {"in_flight": 3, "publisher": 'it\'s "the" \\gate'})
        assert (await rig.poll("bob")).share == PARTITIONS  # ann reports, and shares no work
        await rig.put("a1")
        await rig.poll("ann")
        await rig.store.leases.report("ann", {"in_flight": 0})
        [row] = await worker_rows(rig, "ann")
        assert row.report == {"in_flight": 0}
        assert row.reported_at is not None
        await rig.store.leases.release("ann")
        assert await worker_rows(rig, "ann") == []

    async def test_two_settlements_and_a_poll_do_not_disturb_each_other(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1", "b1")
        a1, b1 = await rig.claimed("a1", "b1")
        await rig.store.settlements.settle(Settlement(attempts=[attempt(a1)], delivered=[b1]))
        await rig.store.settlements.settle(Settlement(attempts=[attempt(a1)], delivered=[b1]))
        assert (await rig.poll()).leases == ()
