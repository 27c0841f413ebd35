"""One file, several writers: the application's handlers, and two relays."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from postroom import Status
from postroom.publishers.base import DELIVERED, Outcome
from postroom.record import ClaimedRecord
from postroom.relay.relay import OutboxRelay
from tests.chaos.ledger import Ledger, out_of_order, repeats
from tests.chaos.outbox import has_status, records_of, records_of_keys, rows, running, save
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import Base, Note, outbox
from tests.support.waiting import eventually

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


RUBBISH = {
    "an id that is none": "id = 'abc'",
    "an id of bytes": "id = x'ff'",
    "a payload that is no JSON": "payload = 'not json'",
    "a payload of bytes": "payload = x'ff00'",
    "headers of bytes": "headers = x'ff'",
    "a type of bytes": "event_type = x'ff'",
    "a number of a type": "event_type = 5",
    "a key of bytes": "aggregate_id = x'ff'",
    "a count that is none": "retry_count = 'many'",
    "a version that is none": "event_version = 'new'",
    "a limit that is none": "max_retries = 'few'",
    "a time that is none": "occurred_at = 'yesterday'",
    "a due time that is none": "due_at = 'tomorrow', ready = 0",
    "a partition that is none": "partition = 'left'",
    "a payload too deep": "payload = '" + "[" * 5000 + "]" * 5000 + "'",
}


async def test_rows_edited_to_rubbish_are_delivered_or_fail_and_stop_nobody_else(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    bad = [record for number in range(len(RUBBISH)) for record in records_of(f"bad{number}", 1)]
    good = records_of_keys(70, 1)
    await save(engine, [*bad, *good])
    async with engine.begin() as connection:
        for position, edit in enumerate(RUBBISH.values(), start=1):
            await connection.execute(text(f"UPDATE outbox SET {edit} WHERE position = {position}"))

    relay = OutboxRelay(outbox, engine, LedgerPublisher(ledger), poll_interval=SOON)
    async with running(relay):
        everybody = {str(each.id) for each in good}
        await eventually(lambda: everybody <= ledger.records(), "the rest flows")
        for position, name in enumerate(RUBBISH, start=1):
            await came_to_an_end(engine, position, name)
        await relay.stop()


async def came_to_an_end(engine: AsyncEngine, position: int, name: str) -> None:
    """Wait until a record is delivered, or failed with a reason."""
    query = text("SELECT status, error_message FROM outbox WHERE position = :position")

    async def ended() -> bool:
        async with engine.connect() as connection:
            row = (await connection.execute(query, {"position": position})).one()
        gave_up = row.status == Status.FAILED and row.error_message
        return bool(row.status == Status.PUBLISHED or gave_up)

    await eventually(ended, f"{name}: it is delivered, or fails and says why")
