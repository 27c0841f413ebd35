"""Records that do harm: to the process, to the connection, or to nobody but themselves."""

import time
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRecord, Status
from postroom.relay.poison import ONE_BY_ONE_AFTER, QUARANTINED_AFTER
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
from tests.support.waiting import PATIENCE, Condition, eventually, happens

DEATHS = ONE_BY_ONE_AFTER + QUARANTINED_AFTER


async def restart_the_dead(fleet: Fleet, workers: int, done: Condition, end: str) -> None:
    """Keep so many workers running until something is done."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        while len(fleet.alive) < workers:
            fleet.start()
        if await happens(done, within=0.2):
            return
    pytest.fail(f"{end}: {len(fleet.dead)} workers died")


@pytest.mark.requirement("E19")
async def test_a_record_that_kills_its_process_is_quarantined_and_the_rest_flows(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet
) -> None:
    killer, *followers = records_of("killer", 4)
    others = records_of_keys(10, 60)
    await save(engine, [*others[:300], killer, *followers, *others[300:]])
    fleet.configure(poll=0.2, kill=(str(killer.id),), latency=0.02)

    async def done() -> bool:
        return len(ledger.records()) == len(others) and bool(await quarantined(engine))

    await restart_the_dead(fleet, 2, done, "the killer has not been found")

    row = await row_of(engine, killer)
    assert (row.status, row.ready) == (Status.PENDING, False)
    assert row.error_message == "quarantined: 4 workers died in a row while they delivered it"
    assert timedelta(seconds=20) < row.due_at - row.updated_at <= timedelta(seconds=31)
    assert await quarantined(engine) == [row.position]
    assert len(fleet.dead) <= DEATHS
    assert ledger.records() == {str(record.id) for record in others}
    assert out_of_order(ledger.delivered()) == []
    assert await held_back(engine, followers)


@pytest.mark.extended
@pytest.mark.requirement("E19")
async def test_a_quarantined_record_costs_one_process_at_each_try_and_is_delivered_once_mended(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet
) -> None:
    killer, follower = records_of("killer", 2)
    await save(engine, [killer, follower])
    fleet.configure(poll=0.2, kill=(str(killer.id),))

    async def is_quarantined(times: int) -> bool:
        return len(await quarantined(engine)) == times

    await restart_the_dead(fleet, 1, partial(is_quarantined, 1), "the killer is found")
    deaths = len(fleet.dead)
    others = records_of_keys(10, 10)
    await save(engine, others)

    await eventually(lambda: len(fleet.dead) > deaths, "it is tried again")
    await restart_the_dead(fleet, 1, partial(is_quarantined, 2), "it is quarantined again")
    assert len(fleet.dead) == deaths + 1

    for worker in fleet.alive:
        worker.kill()
    fleet.configure(kill=())
    fleet.start()
    await eventually(lambda: str(follower.id) in ledger.records(), "it is delivered", within=90)
    assert out_of_order(ledger.delivered()) == []


async def quarantined(engine: AsyncEngine) -> list[int]:
    """Give the positions of records, each as often as it was quarantined."""
    table = TABLES.attempts
    found = select(table.c.position).where(table.c.verdict == "quarantined")
    async with engine.connect() as connection:
        return list(await connection.scalars(found))


async def held_back(engine: AsyncEngine, records: list[OutboxRecord]) -> bool:
    found = await rows(engine, TABLES.records.c.id.in_([record.id for record in records]))
    return has_status(found, Status.PENDING) and not any(row.ready for row in found)
