"""One file, several writers: the application's handlers, and two relays."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from postroom import Status
from postroom.publishers.base import DELIVERED, Outcome
from postroom.record import ClaimedRecord
from postroom.relay.relay import OutboxRelay
from tests.chaos.ledger import Ledger, out_of_order, repeats
from tests.chaos.outbox import has_status, records_of_keys, rows, running, save
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import Base, Note, outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended

SOON = timedelta(seconds=0.1)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield engine
    await engine.dispose()


async def test_handlers_write_to_the_file_that_two_relays_deliver_from_once_each(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    async def write_a_note(record: ClaimedRecord) -> Outcome:
        async with AsyncSession(engine) as session:
            session.add(Note(text=str(record.id)))
            await session.commit()
        return DELIVERED

    records = records_of_keys(20, 5)
    await save(engine, records)
    relays = [
        OutboxRelay(
            outbox,
            engine,
            LedgerPublisher(ledger, name, write_a_note, max_in_flight=4),
            poll_interval=SOON,
        )
        for name in ("first", "second")
    ]
    async with running(relays[0]), running(relays[1]):
        await eventually(lambda: len(ledger.delivered()) >= len(records), "everything is delivered")
        await asyncio.gather(*[relay.stop() for relay in relays])

    assert repeats(ledger.delivered()) == []
    assert out_of_order(ledger.delivered()) == []
    assert has_status(await rows(engine), Status.PUBLISHED)
    async with engine.connect() as connection:
        assert await connection.scalar(select(func.count()).select_from(Note)) == len(records)


async def test_a_second_relay_takes_over_the_file_at_once_when_the_first_one_stops(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    door = asyncio.Event()

    async def wait_at_the_door(record: ClaimedRecord) -> Outcome:
        await door.wait()
        return DELIVERED

    await save(engine, records_of_keys(3, 2))
    publisher = LedgerPublisher(ledger, "first", wait_at_the_door)
    first = OutboxRelay(outbox, engine, publisher, lease=timedelta(hours=1))  # it gives it back
    second = OutboxRelay(outbox, engine, LedgerPublisher(ledger, "second"), poll_interval=SOON)
    async with running(first) as run, running(second):
        await eventually(lambda: len(ledger.entries()) >= 3, "deliveries are under way")
        run.cancel()
        await eventually(lambda: len(ledger.delivered()) == 6, "the second one delivers")
        await second.stop()
    assert repeats(ledger.delivered()) == []
    assert out_of_order(ledger.delivered()) == []
