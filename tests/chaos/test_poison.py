"""Records that do harm: to the process, to the connection, or to nobody but themselves."""

import time
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRecord, Status
from tests.chaos.fleet import Fleet
from tests.chaos.ledger import Ledger, out_of_order
from tests.chaos.outbox import (
    TABLES,
    has_status,
    records_of,
    records_of_keys,
    row_of,
    rows,
    save,
)
from tests.support.waiting import PATIENCE, happens

MAX_CRASHES = 2
UNNOTICED = 2
"""Deaths before a partition is served one by one."""


async def restart_the_dead(fleet: Fleet, workers: int, engine: AsyncEngine, end: str) -> None:
    """Keep so many workers running until no record is in flight or ready any more."""

    async def done() -> bool:
        return not await rows(engine, TABLES.records.c.ready)

    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        while len(fleet.alive) < workers:
            fleet.start()
        if await happens(done, within=0.2):
            return
    pytest.fail(f"{end}: {len(fleet.dead)} workers died")


@pytest.mark.requirement("E1")
async def test_a_record_that_kills_its_process_fails_and_the_rest_flows(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet
) -> None:
    killer, *followers = records_of("k0", 4)
    others = records_of_keys(10, 6)
    await save(engine, [*others, killer, *followers])
    fleet.configure(lease=1.0, poll=0.2, kill=(str(killer.id),), max_crashes=MAX_CRASHES)

    await restart_the_dead(fleet, 2, engine, "the killer has not been found")

    row = await row_of(engine, killer)
    assert row.status == Status.FAILED
    assert row.error_message == (
        f"the process died {MAX_CRASHES} times while it delivered this record"
    )
    assert await failed(engine) == [killer.id]
    assert len(fleet.dead) <= UNNOTICED + MAX_CRASHES  # less, if one that stalled counted as dead
    assert ledger.records() == {str(record.id) for record in others}
    assert out_of_order(ledger.delivered()) == []
    assert await held_back(engine, followers)


async def failed(engine: AsyncEngine) -> list[UUID]:
    return [row.id for row in await rows(engine, TABLES.records.c.status == Status.FAILED)]


async def held_back(engine: AsyncEngine, records: list[OutboxRecord]) -> bool:
    found = await rows(engine, TABLES.records.c.id.in_([record.id for record in records]))
    return has_status(found, Status.PENDING) and not any(row.ready for row in found)
