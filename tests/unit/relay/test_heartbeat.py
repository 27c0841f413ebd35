"""The heartbeat: the leases are renewed, whatever the loop is waiting for."""

import asyncio
from contextlib import suppress
from typing import cast

import pytest

from postroom.relay.heartbeat import beat
from postroom.store.base import Lease
from postroom.store.store import Store
from tests.unit.relay.bench import Bench
from tests.unit.relay.fake_store import lock_timeout, refused_connection
from tests.unit.relay.hand_clock import START
from tests.unit.relay.records import record
from tests.unit.relay.settings import SECOND

LEASE = 8 * SECOND


@pytest.fixture
def bench() -> Bench:
    """A loop that holds partition 1 for 8 seconds, of which it uses 6.4."""
    bench = Bench(lease=LEASE)
    bench.loop.leases.polled([Lease(partition=1, token=1)], asked_at=START)
    bench.store.leased = {1}
    return bench


async def run(bench: Bench, seconds: float) -> None:
    """Run the heartbeat for so many seconds."""
    task = asyncio.create_task(beat(bench.loop, cast(Store, bench.store)))
    bench.clock.at(seconds, task.cancel)
    with suppress(asyncio.CancelledError):
        await task


async def test_the_leases_are_renewed_four_times_per_lease(bench: Bench) -> None:
    await run(bench, 8.5)
    assert [each.at for each in bench.store.named("renew")] == [2, 4, 6, 8]


async def test_a_renewed_lease_may_be_relied_on_longer(bench: Bench) -> None:
    await run(bench, 4.5)
    leases = bench.loop.leases
    assert leases.covers(record(1), START + 4 + 6.3)
    assert not leases.covers(record(1), START + 4 + 6.4)


async def test_a_renewal_counts_from_before_it_was_asked_for(bench: Bench) -> None:
    bench.store.takes["renew"] = 1.5
    await run(bench, 3.8)
    assert not bench.loop.leases.covers(record(1), START + 2 + 6.4)


async def test_a_lease_that_was_lost_is_not_renewed(bench: Bench) -> None:
    bench.store.held_leases[1] = Lease(partition=1, token=2)
    await run(bench, 4.5)
    assert not bench.loop.leases.covers(record(1), START + 6.4)


async def test_a_heartbeat_that_fails_is_an_outage_and_the_next_one_ends_it(bench: Bench) -> None:
    bench.store.fail("renew", refused_connection)
    states: list[str] = []
    bench.clock.at(2.5, lambda: states.append(bench.database_breaker.state))
    await run(bench, 4.5)
    assert states == ["open"]
    assert bench.database_breaker.outage is None


async def test_a_worker_with_leases_reports_at_each_heartbeat(bench: Bench) -> None:
    bench.clock.at(5, lambda: setattr(bench.loop, "left", True))
    await run(bench, 8.5)
    assert [at for at, _ in bench.store.reports] == [2, 4]  # until it has left


async def test_an_idle_worker_reports_at_once_and_every_ten_seconds(bench: Bench) -> None:
    bench.store.leased = set()
    await run(bench, 25)
    assert [at for at, _ in bench.store.reports] == [2, 12, 22]


async def test_an_idle_worker_reports_an_outage_and_its_end_at_the_next_heartbeat(
    bench: Bench,
) -> None:
    bench.store.leased, breaker = set(), bench.loop.publisher_breaker
    bench.clock.at(5, lambda: breaker.trip("connection refused"))
    bench.clock.at(9, breaker.reset)
    await run(bench, 15)
    outages = [(at, each["publisher_outage"] is not None) for at, each in bench.store.reports]
    assert outages == [(2, False), (6, True), (10, False)]


async def test_a_report_counts_the_deliveries_of_a_minute(bench: Bench) -> None:
    def deliver() -> None:
        bench.tally.delivered += 5

    for second in range(100):
        bench.clock.at(second + 0.5, deliver)
    await run(bench, 100)
    counted = {at: report["per_minute"] for at, report in bench.store.reports}
    assert (counted[2], counted[60], counted[90]) == (10, 300, 300)


async def test_a_report_that_fails_or_a_heartbeat_that_meets_a_lock_is_no_outage(
    bench: Bench,
) -> None:
    async def refuse(*_: object) -> None:
        raise refused_connection()

    bench.store.report = refuse  # type: ignore[assignment]
    bench.store.fail("renew", lock_timeout)
    await run(bench, 4.5)
    assert bench.database_breaker.outage is None
    assert len(bench.store.named("renew")) == 2


async def test_an_error_that_waiting_cannot_cure_is_raised(bench: Bench) -> None:
    bench.store.fail("renew", lambda: ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        await run(bench, 5)


async def test_a_heartbeat_waits_for_a_poll(bench: Bench) -> None:
    await bench.loop.leases.lock.acquire()
    bench.clock.at(2.5, bench.loop.leases.lock.release)
    task = asyncio.create_task(run(bench, 3))
    await bench.clock.spend(2.2)
    assert bench.store.names == []
    await bench.clock.spend(0.5)
    assert bench.store.names == ["renew"]
    await task
