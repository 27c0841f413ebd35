"""A worker that an operator drains: it gets no leases until it is resumed."""

from typing import Any

import pytest

from postroom.record import PARTITIONS
from tests.conformance.store.auditing import entries
from tests.conformance.store.desk import LEASE, Desk, StoreHarness, tokens_of
from tests.conformance.store.leasing import fill, held_by, worker_rows


async def is_draining(desk: Desk, worker: str) -> bool:
    [row] = await worker_rows(desk, worker)
    return bool(row.draining)


@pytest.mark.requirement("E16")
class Draining:
    """Leases, shares and the row of a worker."""

    async def test_a_drained_worker_keeps_what_is_busy_and_takes_nothing(self, desk: Desk) -> None:
        await fill(desk, 3, 4)
        tokens = tokens_of(await desk.poll("ann"))
        assert await desk.operations.drain("ann")
        await fill(desk, 5)
        poll = await desk.poll("ann", busy=[3], all_if_alone=True)
        assert (poll.draining, poll.waiting, tokens_of(poll)) == (True, 3, {3: tokens[3]})
        assert await held_by(desk, "ann") == {3}
        assert (await desk.poll("ann")).leases == ()
        assert await held_by(desk, "ann") == set()
        assert await desk.open_to_claim(worker="ann") == []

    async def test_others_take_over_what_it_released_at_once(self, desk: Desk) -> None:
        await fill(desk, *range(10))
        await desk.poll("ann")
        await desk.operations.drain("ann")
        await desk.poll("ann", busy=[3])
        bob = await desk.poll("bob")
        assert set(tokens_of(bob)) == set(range(10)) - {3}
        assert (bob.draining, bob.unattended) == (False, ())
        assert {lease.crash_count for lease in bob.leases} == {0}
        await desk.poll("ann")
        assert set(tokens_of(await desk.poll("bob"))) == set(range(10))

    async def test_others_share_the_work_as_if_it_were_not_there(
        self, desk: Desk, harness: StoreHarness
    ) -> None:
        await fill(desk, *range(12))
        for worker in ("ann", "bob", "cyd"):
            await desk.poll(worker)
        await desk.operations.drain("cyd")
        await desk.poll("cyd")
        assert (await desk.poll("ann")).share == (6 if harness.shares_work else PARTITIONS)
        await desk.operations.drain("bob")
        await desk.poll("bob")
        assert (await desk.poll("ann")).share == PARTITIONS

    async def test_a_worker_that_is_resumed_shares_the_work_again(
        self, desk: Desk, harness: StoreHarness
    ) -> None:
        await fill(desk, *range(10))
        await desk.poll("ann")
        await desk.operations.drain("ann")
        await desk.poll("ann")
        await desk.poll("bob")
        assert await desk.operations.undrain("ann")
        poll = await desk.poll("ann")
        assert (poll.draining, poll.leases) == (False, ())
        bob = await desk.poll("bob", surplus=range(5))
        assert bob.share == (5 if harness.shares_work else PARTITIONS)
        assert set(tokens_of(await desk.poll("ann"))) <= set(range(5))

    async def test_a_worker_that_is_alone_and_resumed_takes_everything_again(
        self, desk: Desk
    ) -> None:
        await fill(desk, 1, 2)
        await desk.poll("ann")
        await desk.operations.drain("ann")
        assert (await desk.poll("ann")).leases == ()
        await desk.operations.undrain("ann")
        assert set(tokens_of(await desk.poll("ann"))) == {1, 2}

    async def test_polls_heartbeats_reports_and_outages_leave_it_drained(self, desk: Desk) -> None:
        await fill(desk, 3)
        await desk.poll("ann")
        await desk.operations.drain("ann")
        await desk.poll("ann", busy=[3])
        await desk.store.leases.renew("ann", LEASE)
        await desk.store.leases.report("ann", {"in_flight": 1})
        await desk.store.leases.release("ann", stays=True)  # its publisher is unavailable
        await desk.store.leases.report("ann", {"in_flight": 0})
        assert (await desk.poll("ann")).draining
        assert await is_draining(desk, "ann")

    async def test_who_releases_its_leases_and_stays_shares_no_work_and_keeps_its_row(
        self, desk: Desk
    ) -> None:
        await fill(desk, *range(10))
        await desk.poll("ann")
        [before] = await worker_rows(desk, "ann")
        await desk.store.leases.release("ann", stays=True)
        bob = await desk.poll("bob")
        assert (len(bob.leases), bob.share) == (10, PARTITIONS)
        [after] = await worker_rows(desk, "ann")
        assert (after.started_at, after.draining) == (before.started_at, False)

    async def test_a_drained_worker_that_ends_leaves_no_row(self, desk: Desk) -> None:
        await fill(desk, 3)
        await desk.poll("ann")
        await desk.operations.drain("ann")
        await desk.store.leases.release("ann")
        assert await worker_rows(desk, "ann") == []
        await desk.poll("ann")
        assert not await is_draining(desk, "ann")  # a worker that starts is nobody's concern yet

    async def test_it_is_written_down_once_by_whom(self, desk: Desk) -> None:
        await desk.store.leases.report("host:12:ab", {})
        calls: list[Any] = [desk.operations.drain, desk.operations.undrain]
        for change in calls:
            assert await change("host:12:ab")
            assert not await change("host:12:ab")
        found = [(each.action, each.target, each.operator) for each in await entries(desk)]
        target = "worker host:12:ab"
        assert found == [("drain", target, "eve"), ("undrain", target, "eve")]

    async def test_an_unknown_worker_is_not_drained(self, desk: Desk) -> None:
        assert not await desk.operations.drain("nobody")
        assert not await desk.operations.undrain("nobody")
        assert await entries(desk) == []
