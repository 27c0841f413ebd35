"""A worker is frozen or cut off between the UPDATE and the COMMIT of a settlement.

The server keeps the row locks of that transaction for as long as the connection is open, and here
nobody closes it: a relay whose transactions do not end by themselves waits for ever.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from postroom import OutboxRecord, Status
from postroom.relay.health import HealthStatus
from postroom.relay.relay import OutboxRelay
from tests.chaos.fleet import Fleet
from tests.chaos.ledger import Ledger, out_of_order, repeats
from tests.chaos.open_transactions import CommitSwallower, port_of, through
from tests.chaos.outbox import TABLES, records_of_keys, rows, running, save, settled
from tests.chaos.publisher import LedgerPublisher
from tests.support.proxy import proxy_to
from tests.support.shop import outbox
from tests.support.waiting import FULL, eventually

pytestmark = pytest.mark.extended

LEASE = 2.0
KEYS = 200
RECORDS = 10_000 if FULL else 600


@pytest.fixture
async def records(engine: AsyncEngine, fleet: Fleet) -> list[OutboxRecord]:
    records = records_of_keys(KEYS, RECORDS // KEYS)
    await save(engine, records)
    # A settlement with refusals is a transaction of several statements; one without is just one.
    fleet.configure(lease=LEASE, poll=0.2, batch_size=20, refused_percent=20)
    return records


async def all_are_settled(engine: AsyncEngine) -> None:
    await eventually(lambda: settled(engine), "everything is settled")


def assert_complete(ledger: Ledger, records: list[OutboxRecord]) -> None:
    assert ledger.records() == {str(record.id) for record in records}
    assert out_of_order(ledger.delivered()) == []


@pytest.mark.requirement("E1")
async def test_others_go_on_when_a_worker_is_frozen_before_it_commits_a_settlement(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet, records: list[OutboxRecord], tmp_path: Path
) -> None:
    mark = tmp_path / "frozen"
    frozen = fleet.start(freeze=str(mark))
    await eventually(mark.exists, "the worker is frozen")

    for _ in range(2):
        fleet.start()
    await all_are_settled(engine)

    assert_complete(ledger, records)
    frozen.thaw()
    frozen.ask_to_stop()
    await eventually(lambda: frozen.dead, "the frozen worker has ended")
    assert frozen.process.returncode == 0, frozen.log.read_text()


@asynccontextmanager
async def swallowed_commit(fleet: Fleet, *, cuts_all: bool) -> AsyncIterator[None]:
    """Start a worker, and stall it when it commits a settlement: that connection, or all."""
    url = fleet.common.url
    async with proxy_to(port_of(url)) as proxy:
        swallower = CommitSwallower(proxy, cuts_all=cuts_all)
        fleet.start(url=through(proxy, url))
        await eventually(lambda: swallower.done, "a COMMIT is swallowed")
        yield


@pytest.mark.requirement("E1")
async def test_others_go_on_when_the_network_of_a_worker_is_cut_before_it_commits_a_settlement(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet, records: list[OutboxRecord]
) -> None:
    async with swallowed_commit(fleet, cuts_all=True):
        fleet.start()
        await all_are_settled(engine)

    assert_complete(ledger, records)


@pytest.mark.requirement("E1")
async def test_a_worker_goes_on_by_itself_when_one_commit_is_swallowed(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet, records: list[OutboxRecord]
) -> None:
    async with swallowed_commit(fleet, cuts_all=False):
        await all_are_settled(engine)

    assert_complete(ledger, records)


def relay_to(ledger: Ledger, engine: AsyncEngine) -> OutboxRelay:
    return OutboxRelay(
        outbox,
        engine,
        LedgerPublisher(ledger),
        poll_interval=timedelta(seconds=0.2),
        lease=timedelta(seconds=LEASE),
    )


@asynccontextmanager
async def locked(engine: AsyncEngine, record: OutboxRecord) -> AsyncIterator[AsyncConnection]:
    """Lock the row of a record until a rollback, as somebody does who edits it by hand."""
    async with engine.connect() as connection:
        row = select(TABLES.records).where(TABLES.records.c.id == record.id)
        await connection.execute(row.with_for_update())
        yield connection


@pytest.mark.requirement("E1")
async def test_a_record_that_somebody_has_locked_keeps_no_other_from_being_settled(
    engine: AsyncEngine, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    records = records_of_keys(KEYS, 2)
    await save(engine, records)
    relay = relay_to(ledger, engine)

    async def others_are_settled() -> bool:
        found = await rows(engine, TABLES.records.c.status != Status.PUBLISHED)
        return [row.id for row in found] == [records[0].id]

    async with locked(engine, records[0]) as lock, running(relay):
        await eventually(others_are_settled, "everything else is settled")
        assert relay.health.status is HealthStatus.OK
        await lock.rollback()
        await all_are_settled(engine)
        await relay.stop()

    assert repeats(ledger.delivered()) == []
    assert "settlements have to wait" in caplog.text
    assert "unavailable" not in caplog.text
