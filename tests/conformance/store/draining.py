"""A worker that an operator drains: it gets no leases until it is resumed."""

from typing import Any

import pytest

from postroom.record import PARTITIONS
from tests.conformance.store.auditing import entries
from tests.conformance.store.leasing import fill, held_by, worker_rows
from tests.conformance.store.rig import LEASE, StoreHarness, StoreRig, tokens_of


async def is_draining(rig: StoreRig, worker: str) -> bool:
    [row] = await worker_rows(rig, worker)
    return bool(row.draining)


@pytest.mark.requirement("E16")
class Draining:
    """Leases, shares and the row of a worker."""

    async def test_a_drained_worker_keeps_what_is_busy_and_takes_nothing(
        self, rig: StoreRig
    ) -> None:
        await fill(rig, 3, 4)
        tokens = tokens_of(await rig.poll("ann"))
        assert await rig.operations.drain("ann")
        await fill(rig, 5)
        poll = await rig.poll("ann", busy=[3], all_if_alone=True)
        assert (poll.draining, poll.waiting, tokens_of(poll)) == (True, 3, {3: tokens[3]})
        assert await held_by(rig, "ann") == {3}
        assert (await rig.poll("ann")).leases == ()
        assert await held_by(rig, "ann") == set()
        assert await rig.open_to_claim(worker="ann") == []

    async def test_others_take_over_what_it_released_at_once(self, rig: StoreRig) -> None:
        await fill(rig, *range(10))
        await rig.poll("ann")
        await rig.operations.drain("ann")
        await rig.poll("ann", busy=[3])
        bob = await rig.poll("bob")
        assert set(tokens_of(bob)) == set(range(10)) - {3}
        assert not bob.draining
        assert {lease.crash_count for lease in bob.leases} == {0}
        await rig.poll("ann")
        assert set(tokens_of(await rig.poll("bob"))) == set(range(10))

    async def test_others_share_the_work_as_if_it_were_not_there(
        self, rig: StoreRig, harness: StoreHarness
    ) -> None:
        await fill(rig, *range(12))
        for worker in ("ann", "bob", "cyd"):
            await rig.poll(worker)
        await rig.operations.drain("cyd")
        await rig.poll("cyd")
        assert (await rig.poll("ann")).share == (6 if harness.shares_work else PARTITIONS)
        await rig.operations.drain("bob")
        await rig.poll("bob")
        assert (await rig.poll("ann")).share == PARTITIONS

    async def test_a_worker_that_is_resumed_shares_the_work_again(
        self, rig: StoreRig, harness: StoreHarness
    ) -> None:
        await fill(rig, *range(10))
        await rig.poll("ann")
        await rig.operations.drain("ann")
        await rig.poll("ann")
        await rig.poll("bob")
        assert await rig.operations.undrain("ann")
        poll = await rig.poll("ann")
        assert (poll.draining, poll.leases) == (False, ())
        bob = await rig.poll("bob", surplus=range(5))
        assert bob.share == (5 if harness.shares_work else PARTITIONS)
        assert set(tokens_of(await rig.poll("ann"))) <= set(range(5))

    async def test_a_worker_that_is_alone_and_resumed_takes_everything_again(
        self, rig: StoreRig
    ) -> None:
        await fill(rig, 1, 2)
        await rig.poll("ann")
        await rig.operations.drain("ann")
        assert (await rig.poll("ann")).leases == ()
        await rig.operations.undrain("ann")
        assert set(tokens_of(await rig.poll("ann"))) == {1, 2}

    async def test_polls_heartbeats_reports_and_outages_leave_it_drained(
        self, rig: StoreRig
    ) -> None:
        await fill(rig, 3)
        await rig.poll("ann")
        await rig.operations.drain("ann")
        await rig.poll("ann", busy=[3])
        await rig.store.leases.renew("ann", LEASE)
        await rig.store.leases.report("ann", {"in_flight": 1})
        await rig.store.leases.release("ann", stays=True)  # its publisher is unavailable
        await rig.store.leases.report("ann", {"in_flight": 0})
        assert (await rig.poll("ann")).draining
        assert await is_draining(rig, "ann")

    async def test_who_releases_its_leases_and_stays_shares_no_work_and_keeps_its_row(
        self, rig: StoreRig
    ) -> None:
        await fill(rig, *range(10))
        await rig.poll("ann")
        [before] = await worker_rows(rig, "ann")
        await rig.store.leases.release("ann", stays=True)
        bob = await rig.poll("bob")
        assert (len(bob.leases), bob.share) == (10, PARTITIONS)
        [after] = await worker_rows(rig, "ann")
        assert (after.started_at, after.draining) == (before.started_at, False)

    async def test_a_drained_worker_that_ends_leaves_no_row(self, rig: StoreRig) -> None:
        await fill(rig, 3)
        await rig.poll("ann")
        await rig.operations.drain("ann")
        await rig.store.leases.release("ann")
        assert await worker_rows(rig, "ann") == []
        await rig.poll("ann")
        assert not await is_draining(rig, "ann")  # a worker that starts is nobody's concern yet

    async def test_it_is_written_down_once_by_whom(self, rig: StoreRig) -> None:
        await rig.store.leases.report("host:12:ab", {})
        calls: list[Any] = [rig.operations.drain, rig.operations.undrain]
        for change in calls:
            assert await change("host:12:ab")
            assert not await change("host:12:ab")
        found = [(each.action, each.target, each.operator) for each in await entries(rig)]
        target = "worker host:12:ab"
        assert found == [("drain", target, "eve"), ("undrain", target, "eve")]

    async def test_an_unknown_worker_is_not_drained(self, rig: StoreRig) -> None:
        assert not await rig.operations.drain("nobody")
        assert not await rig.operations.undrain("nobody")
        assert await entries(rig) == []
