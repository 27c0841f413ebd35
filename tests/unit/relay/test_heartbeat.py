"""The heartbeat: the leases are renewed, whatever the loop is waiting for."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import pytest
from sqlalchemy.exc import OperationalError

from postroom.relay.heartbeat import beat
from postroom.store.base import Lease
from postroom.store.store import Store
from tests.unit.relay.fake_store import lock_timeout, refused_connection
from tests.unit.relay.faked_loop import FakedLoop
from tests.unit.relay.hand_clock import START
from tests.unit.relay.records import record
from tests.unit.relay.settings import SECOND

LEASE = 8 * SECOND


@pytest.fixture
def faked() -> FakedLoop:
    """A loop that holds partition 1 for 8 seconds, of which it uses 6.4."""
    faked = FakedLoop(lease=LEASE)
    faked.loop.leases.polled([Lease(partition=1, token=1)], asked_at=START)
    faked.store.leased = {1}
    return faked


async def run(faked: FakedLoop, seconds: float) -> None:
    """Run the heartbeat for so many seconds."""
    task = asyncio.create_task(beat(faked.loop, cast(Store, faked.store)))
    faked.clock.at(seconds, task.cancel)
    with suppress(asyncio.CancelledError):
        await task


async def test_the_leases_are_renewed_four_times_per_lease(faked: FakedLoop) -> None:
    await run(faked, 8.5)
    assert [each.at for each in faked.store.named("renew")] == [2, 4, 6, 8]


async def test_a_renewed_lease_may_be_relied_on_longer(faked: FakedLoop) -> None:
    await run(faked, 4.5)
    leases = faked.loop.leases
    assert leases.covers(record(1), START + 4 + 6.3)
    assert not leases.covers(record(1), START + 4 + 6.4)


async def test_a_renewal_counts_from_before_it_was_asked_for(faked: FakedLoop) -> None:
    faked.store.takes["renew"] = 1.5
    await run(faked, 3.8)
    assert not faked.loop.leases.covers(record(1), START + 2 + 6.4)


async def test_a_lease_that_was_lost_is_not_renewed(faked: FakedLoop) -> None:
    faked.store.held_leases[1] = Lease(partition=1, token=2)
    await run(faked, 4.5)
    assert not faked.loop.leases.covers(record(1), START + 6.4)


def missing_table() -> OperationalError:
    return OperationalError("UPDATE", {}, sqlite3.OperationalError("no such table: outbox_leases"))


@pytest.mark.parametrize("error", [refused_connection, missing_table])
async def test_a_heartbeat_that_fails_is_an_outage_and_the_next_one_ends_it(
    faked: FakedLoop, error: Callable[[], Exception]
) -> None:
    faked.store.fail("renew", error)
    states: list[str] = []
    faked.clock.at(2.5, lambda: states.append(faked.database_breaker.state))
    await run(faked, 4.5)
    assert states == ["open"]
    assert faked.database_breaker.outage is None


async def test_a_worker_with_leases_reports_at_each_heartbeat(faked: FakedLoop) -> None:
    faked.clock.at(5, lambda: setattr(faked.loop, "left", True))
    await run(faked, 8.5)
    assert [at for at, _ in faked.store.reports] == [2, 4]  # until it has left


async def test_an_idle_worker_reports_at_once_and_every_ten_seconds(faked: FakedLoop) -> None:
    faked.store.leased = set()
    await run(faked, 25)
    assert [at for at, _ in faked.store.reports] == [2, 12, 22]


async def test_an_idle_worker_reports_an_outage_and_its_end_at_the_next_heartbeat(
    faked: FakedLoop,
) -> None:
    faked.store.leased, breaker = set(), faked.loop.publisher_breaker
    faked.clock.at(5, lambda: breaker.trip("connection refused"))
    faked.clock.at(9, breaker.reset)
    await run(faked, 15)
    outages = [(at, each["publisher_outage"] is not None) for at, each in faked.store.reports]
    assert outages == [(2, False), (6, True), (10, False)]


async def test_a_report_counts_the_deliveries_of_a_minute(faked: FakedLoop) -> None:
    def deliver() -> None:
        faked.tally.delivered += 5

    for second in range(100):
        faked.clock.at(second + 0.5, deliver)
    await run(faked, 100)
    counted = {at: report["per_minute"] for at, report in faked.store.reports}
    assert (counted[2], counted[60], counted[90]) == (10, 300, 300)


async def test_a_report_that_fails_or_a_heartbeat_that_meets_a_lock_is_no_outage(
    faked: FakedLoop,
) -> None:
    async def refuse(*_: object) -> None:
        raise refused_connection()

    faked.store.report = refuse  # type: ignore[assignment]
    faked.store.fail("renew", lock_timeout)
    states: list[str] = []
    faked.clock.at(2.5, lambda: states.append(faked.database_breaker.state))
    await run(faked, 4.5)
    assert [*states, faked.database_breaker.state] == ["closed"] * 2
    assert len(faked.store.named("renew")) == 2


async def test_an_error_that_waiting_cannot_cure_is_raised(faked: FakedLoop) -> None:
    faked.store.fail("renew", lambda: ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        await run(faked, 5)


async def test_a_heartbeat_waits_for_a_poll(faked: FakedLoop) -> None:
    await faked.loop.leases.lock.acquire()
    faked.clock.at(2.5, faked.loop.leases.lock.release)
    task = asyncio.create_task(run(faked, 3))
    await faked.clock.spend(2.2)
    assert faked.store.names == []
    await faked.clock.spend(0.5)
    assert faked.store.names == ["renew"]
    await task
