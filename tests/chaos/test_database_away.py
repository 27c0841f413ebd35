"""The database goes away in the middle of deliveries, and comes back."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import Status
from postroom.publishers.base import DELIVERED, Outcome, Refused
from postroom.record import ClaimedRecord
from postroom.relay.health import HealthStatus
from postroom.relay.relay import OutboxRelay
from postroom.relay.retry import RetrySchedule
from tests.chaos.ledger import Ledger, What, out_of_order, repeats
from tests.chaos.outbox import has_status, records_of_keys, row_of, rows, running, save
from tests.chaos.publisher import LedgerPublisher, Treatment, deliver
from tests.chaos.server import Server, private_server
from tests.support.shop import outbox
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def _server() -> Iterator[Server]:
    with private_server() as server:
        yield server


@pytest.fixture
def server(_server: Server) -> Iterator[Server]:
    """A server that runs, at the beginning and at the end."""
    yield _server
    if not _server.runs:
        _server.start()


@pytest.fixture
async def engine(server: Server) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(server.url)
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    yield engine
    await engine.dispose()
    if not server.runs:
        server.start()
    async with engine.begin() as connection:
        await connection.run_sync(outbox.metadata.drop_all)
    await engine.dispose()


def relay_on(engine: AsyncEngine, ledger: Ledger, treat: Treatment = deliver) -> OutboxRelay:
    return OutboxRelay(
        outbox,
        engine,
        LedgerPublisher(ledger, treat=treat),
        poll_interval=timedelta(seconds=0.5),
        lease=timedelta(seconds=2),
        retry=RetrySchedule.seconds(0, forever=True),
    )


def is_degraded(relay: OutboxRelay) -> bool:
    return relay.health.status is HealthStatus.DEGRADED


async def come_back(server: Server, engine: AsyncEngine) -> None:
    await asyncio.to_thread(server.start)
    await engine.dispose()  # the test's own connections; the relay has to see to its own


async def delivered(ledger: Ledger, count: int) -> None:
    await eventually(lambda: len(ledger.records()) >= count, f"{count} records have arrived")


async def all_settled(engine: AsyncEngine) -> bool:
    return has_status(await rows(engine), Status.PUBLISHED)


@pytest.mark.requirement("E1")
async def test_what_arrives_while_the_database_is_away_is_settled_later_and_not_sent_again(
    engine: AsyncEngine, server: Server, ledger: Ledger
) -> None:
    arrive = asyncio.Event()
    records = records_of_keys(10, 5)
    unlucky = records[0]

    async def treat(record: ClaimedRecord) -> Outcome:
        await arrive.wait()
        if record.id == unlucky.id and record.retry_count == 0:
            return Refused("not now")
        return DELIVERED

    await save(engine, records)
    relay = relay_on(engine, ledger, treat)
    async with running(relay):
        await eventually(lambda: len(ledger.entries()) >= 10, "deliveries are under way")
        await asyncio.to_thread(server.crash)
        arrive.set()
        await eventually(lambda: len(ledger.delivered()) >= 9, "they have arrived")
        await eventually(lambda: is_degraded(relay), "the relay notices")
        assert "the database is unavailable" in (relay.health.reason or "")
        await come_back(server, engine)
        await eventually(
            lambda: ledger.records() == {str(each.id) for each in records}, "all arrive"
        )
        await eventually(lambda: relay.health.status is HealthStatus.OK, "the relay is well again")
        await relay.stop()

    assert repeats(ledger.delivered()) == []
    assert out_of_order(ledger.delivered()) == []
    assert await all_settled(engine)
    assert (await row_of(engine, unlucky)).retry_count == 1
    assert ledger.has(What.REFUSED, unlucky.id)


@pytest.mark.requirement("E1")
async def test_a_crash_of_the_database_in_full_flow_repeats_and_loses_nothing(
    engine: AsyncEngine, server: Server, ledger: Ledger
) -> None:
    async def treat(record: ClaimedRecord) -> Outcome:
        await asyncio.sleep(0.005)  # a broker's round trip
        return DELIVERED

    records = records_of_keys(20, 50)
    await save(engine, records)
    relay = relay_on(engine, ledger, treat)
    async with running(relay):
        for part in (100, 400):
            await delivered(ledger, part)
            await asyncio.to_thread(server.crash)
            await eventually(lambda: is_degraded(relay), "the relay notices")
            await come_back(server, engine)
        await delivered(ledger, len(records))
        await relay.stop()

    assert repeats(ledger.delivered()) == []
    assert out_of_order(ledger.delivered()) == []
    assert await all_settled(engine)


@pytest.mark.requirement("E1")
async def test_a_relay_that_starts_while_the_database_is_away_waits_for_it(
    engine: AsyncEngine, server: Server, ledger: Ledger
) -> None:
    records = records_of_keys(3, 3)
    await save(engine, records)
    await engine.dispose()
    await asyncio.to_thread(server.crash)

    relay = relay_on(engine, ledger)
    async with running(relay):
        await eventually(lambda: is_degraded(relay), "the relay says so")
        await come_back(server, engine)
        await eventually(lambda: len(ledger.delivered()) == len(records), "all arrive")
        assert relay.health.status is HealthStatus.OK
        await relay.stop()
    assert await all_settled(engine)


@pytest.mark.requirement("E1")
async def test_a_relay_can_be_stopped_while_the_database_is_away(
    engine: AsyncEngine, server: Server, ledger: Ledger
) -> None:
    relay = relay_on(engine, ledger)
    async with running(relay) as run:
        await eventually(lambda: relay.health.status is HealthStatus.OK, "it runs")
        await asyncio.to_thread(server.crash)
        await eventually(lambda: is_degraded(relay), "the relay notices")
        async with asyncio.timeout(PATIENCE):
            await relay.stop()
            await run
