"""One file, several writers: the application's handlers, and two relays."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from postroom import OutboxRecord, Status
from postroom.clock import Clock
from postroom.publishers.base import DELIVERED, Outcome
from postroom.record import ClaimedRecord
from postroom.relay.relay import OutboxRelay
from tests.chaos.fleet import fleet_of
from tests.chaos.ledger import Ledger, out_of_order, repeats
from tests.chaos.outbox import has_status, records_of_keys, rows, running, save
from tests.chaos.publisher import LedgerPublisher
from tests.chaos.worker import WorkerOptions
from tests.support.shop import Base, Note, outbox
from tests.support.waiting import FULL, eventually

pytestmark = pytest.mark.extended

SOON = timedelta(seconds=0.1)
HOUR = timedelta(hours=1)


class SteppedClock(Clock):
    """A clock that a test can set, forward and back."""

    step = timedelta()

    def shift(self) -> timedelta:
        return self.step


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


async def test_clocks_that_are_set_repeat_nothing_and_keep_the_order(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    async def take_a_moment(record: ClaimedRecord) -> Outcome:
        await asyncio.sleep(0.005)
        return DELIVERED

    clocks = [SteppedClock() for _ in range(3)]
    relays = [
        OutboxRelay(
            outbox,
            engine,
            LedgerPublisher(ledger, f"w{number}", take_a_moment, max_in_flight=10),
            poll_interval=SOON,
            clock=clock,
        )
        for number, clock in enumerate(clocks)
    ]
    saved: list[OutboxRecord] = []
    async with AsyncExitStack() as stack:
        for relay in relays:
            await stack.enter_async_context(running(relay))
        for number in range(30 if FULL else 9):
            records = records_of_keys(20, 5)
            await save(engine, records)
            saved.extend(records)
            clocks[number % 3].step = (HOUR, -HOUR, timedelta())[number // 3 % 3]
            await eventually(lambda: len(ledger.records()) > len(saved) - 50, "deliveries go on")
        await eventually(lambda: len(ledger.records()) == len(saved), "everything is delivered")
        for relay in relays:
            await relay.stop()

    assert repeats(ledger.delivered()) == []
    assert out_of_order(ledger.delivered()) == []
    assert has_status(await rows(engine), Status.PUBLISHED)


async def test_one_of_several_workers_delivers_and_another_one_takes_over_when_it_is_killed(
    engine: AsyncEngine, ledger: Ledger, tmp_path: Path
) -> None:
    url = engine.url.render_as_string()
    common = WorkerOptions(url=url, ledger=str(ledger.path), lease=3.0, poll=0.1)
    with fleet_of(common, tmp_path) as fleet:
        workers = [fleet.start() for _ in range(3)]
        await eventually(lambda: all(each.ready for each in workers), "the workers run")
        await save(engine, records_of_keys(20, 25))
        await eventually(lambda: len(ledger.records()) == 500, "everything is delivered")
        [name] = {entry.worker for entry in ledger.delivered()}
        [active] = [each for each in workers if each.name == name]
        others = [each for each in workers if each is not active]
        await save(engine, records_of_keys(20, 50))
        active.kill()
        await eventually(lambda: len(ledger.records()) == 1500, "another one delivers the rest")

    assert len({entry.worker for entry in ledger.delivered()}) == 2
    for each in others:
        assert "unavailable" not in each.log.read_text()
    assert any("stands by while worker" in each.log.read_text() for each in others)
