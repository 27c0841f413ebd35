"""SQLite's leases, whose clock is that of the machine: it may be set while workers run."""

import os
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import UntypedEvent
from postroom.process import process_name
from postroom.store.store import Store
from tests.support.rows import save
from tests.support.shop import outbox

LEASE = timedelta(hours=1)
RUNS = f"here:{process_name()}1"
ENDED = RUNS.replace(f":{os.getpid()}:", f":{2**22 + 1}:")
ELSEWHERE = f"elsewhere:{os.getpid()}:1"
"""Workers: of a process that runs here, of one that cannot be there, of another host."""
JUST_NOW = timedelta(seconds=0.001)


def store(engine: AsyncEngine, clock_is_ahead: timedelta = timedelta()) -> Store:
    return Store(engine, outbox.tables, shift=lambda: clock_is_ahead)


@pytest.mark.parametrize("step", [2 * LEASE, -2 * LEASE], ids=["forward", "back"])
async def test_a_clock_that_is_set_takes_no_lease_from_a_process_that_runs(
    sqlite_file: AsyncEngine, step: timedelta
) -> None:
    await save(sqlite_file, UntypedEvent(event_type="noted", payload={}))
    first, second = store(sqlite_file), store(sqlite_file, step)
    await first.open()
    assert (await first.leases.poll(RUNS, lease=LEASE, all_if_alone=True)).leases
    poll = await second.leases.poll(f"{RUNS}0", lease=LEASE, all_if_alone=True)
    assert (poll.leases, poll.active) == ((), RUNS)
    assert await first.leases.renew(RUNS, LEASE)


@pytest.mark.parametrize("worker", [ENDED, ELSEWHERE], ids=["that has ended", "of another host"])
async def test_the_leases_of_a_process_are_taken_over_when_they_have_expired(
    sqlite_file: AsyncEngine, worker: str
) -> None:
    await save(sqlite_file, UntypedEvent(event_type="noted", payload={}))
    first, second = store(sqlite_file), store(sqlite_file, 2 * LEASE)
    await first.open()
    assert (await first.leases.poll(worker, lease=LEASE, all_if_alone=True)).leases
    assert (await second.leases.poll(RUNS, lease=LEASE, all_if_alone=True)).leases


async def test_the_leases_of_a_process_that_does_not_renew_them_are_taken_over(
    sqlite_file: AsyncEngine,
) -> None:
    await save(sqlite_file, UntypedEvent(event_type="noted", payload={}))
    first, second = store(sqlite_file), store(sqlite_file, 2 * LEASE)
    await first.open()
    assert (await first.leases.poll(RUNS, lease=JUST_NOW, all_if_alone=True)).leases
    for _ in range(2):  # at the first look, nobody knows for how long
        poll = await second.leases.poll(f"{RUNS}0", lease=JUST_NOW, all_if_alone=True)
    assert poll.leases
