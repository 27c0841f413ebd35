"""The clock was set back by an hour: leases of a worker that is gone end in an hour."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert, update
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import Status
from postroom.relay.relay import OutboxRelay
from tests.chaos.ledger import Ledger, out_of_order, repeats
from tests.chaos.outbox import TABLES, has_status, leases, records_of_keys, rows, running, save
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import Base, outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended

LEASE = timedelta(seconds=2)
HOUR = timedelta(hours=1)
GONE = "gone:1:0:0"


@pytest.fixture(params=["postgresql", "sqlite"])
async def engine(
    request: pytest.FixtureRequest, database_url: str, tmp_path: Path
) -> AsyncIterator[AsyncEngine]:
    urls = {"postgresql": database_url, "sqlite": f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}"}
    engine = create_async_engine(urls[request.param])
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield engine
    await engine.dispose()


def relay_on(engine: AsyncEngine, ledger: Ledger) -> OutboxRelay:
    return OutboxRelay(
        outbox,
        engine,
        LedgerPublisher(ledger),
        poll_interval=timedelta(seconds=0.2),
        lease=LEASE,
    )


async def lease_all(engine: AsyncEngine, *, served_at: datetime, lease: timedelta) -> None:
    """Lease all partitions to a worker, as its last poll would."""
    leased = {"worker": GONE, "token": 5, "served_at": served_at, "leased_until": served_at + lease}
    present = {"worker": GONE, "seen_until": served_at + lease}
    async with engine.begin() as connection:
        await connection.execute(update(TABLES.leases).values(leased))
        await connection.execute(insert(TABLES.workers).values(present))


@pytest.mark.requirement("E1")
async def test_leases_that_a_clock_set_back_has_left_an_hour_ahead_are_taken_over(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    records = records_of_keys(100, 3)
    await save(engine, records)
    relay = relay_on(engine, ledger)
    await relay.store.open()
    await lease_all(engine, served_at=datetime.now(UTC) + HOUR, lease=LEASE)

    async with running(relay):
        await eventually(lambda: len(ledger.records()) == len(records), "everything is delivered")
        await relay.stop()

    assert has_status(await rows(engine), Status.PUBLISHED)
    assert await leases(engine, TABLES.leases.c.worker == GONE) == []
    assert repeats(ledger.delivered()) == []
    assert out_of_order(ledger.delivered()) == []
