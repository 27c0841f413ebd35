"""RabbitMQPublisher reports lost and blocked connections by itself, also when nothing is sent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pamqp import commands, frame

from postroom.publishers.base import Outage
from postroom.publishers.rabbitmq import RabbitMQPublisher
from tests.support.fake_broker import Reply, fake_broker
from tests.support.proxy import How, Proxy, proxy_to
from tests.support.waiting import PATIENCE, eventually

BLOCKED = frame.marshal(commands.Connection.Blocked("low on disk"), 0)
UNBLOCKED = frame.marshal(commands.Connection.Unblocked(), 0)
SHUTDOWN = frame.marshal(commands.Connection.Close(320, "CONNECTION_FORCED - shutdown", 0, 0), 0)


class Reports:
    """What a publisher has reported: the reason of each outage, None for its end."""

    def __init__(self) -> None:
        self.reasons: list[str | None] = []

    def __call__(self, outage: Outage | None) -> None:
        asyncio.get_running_loop()  # raises outside the event loop
        self.reasons.append(None if outage is None else outage.reason)

    async def come(self, count: int = 1) -> list[str | None]:
        await eventually(lambda: len(self.reasons) >= count, f"{count} reports")
        return self.reasons


@pytest.fixture
def reports() -> Reports:
    return Reports()


@asynccontextmanager
async def watched(url: str, reports: Reports) -> AsyncIterator[RabbitMQPublisher]:
    publisher = RabbitMQPublisher(url, exchange="things")
    publisher.watch(reports)
    await publisher.open()
    try:
        yield publisher
    finally:
        async with asyncio.timeout(PATIENCE):
            await publisher.close()


@asynccontextmanager
async def broker_that(*says: Reply, heartbeat: int = 0) -> AsyncIterator[tuple[Proxy, str]]:
    """Give a proxy to a broker that says this when a client is ready to publish, and its URL."""
    ready = [commands.Confirm.SelectOk(), *says]
    broker = fake_broker(lambda channel, number: [], {commands.Confirm.Select: ready})
    async with broker as found, proxy_to(found.port) as proxy:
        yield proxy, f"amqp://guest:guest@127.0.0.1:{proxy.port}/?heartbeat={heartbeat}"


@pytest.mark.parametrize("how", [How.FIN, How.RST])
async def test_a_connection_that_is_cut_while_nothing_is_sent_is_reported_once(
    reports: Reports, how: How
) -> None:
    async with broker_that() as (proxy, url), watched(url, reports):
        proxy.suffer(how)
        await reports.come()
    [reason] = reports.reasons
    assert reason is not None
    assert reason.startswith(f"the connection to RabbitMQ at 127.0.0.1:{proxy.port}/ was lost: ")


@pytest.mark.extended
async def test_heartbeats_that_do_not_come_are_reported(reports: Reports) -> None:
    async with broker_that(heartbeat=1) as (proxy, url), watched(url, reports):
        proxy.suffer(How.STALL)
        [reason] = await reports.come()
    assert reason is not None
    assert "nothing was received from the broker for 2 s" in reason


async def test_a_broker_that_shuts_down_is_reported_with_its_reason(reports: Reports) -> None:
    async with broker_that(SHUTDOWN) as (_, url), watched(url, reports):
        [reason] = await reports.come()
    assert reason is not None
    assert "CONNECTION_FORCED - shutdown" in reason


async def test_a_broker_that_blocks_and_unblocks_is_reported(reports: Reports) -> None:
    async with broker_that(BLOCKED, UNBLOCKED) as (_, url), watched(url, reports):
        blocked, unblocked = await reports.come(2)
    assert blocked is not None
    assert "low on disk" in blocked
    assert unblocked is None


async def test_a_connection_that_it_closes_itself_is_not_reported(reports: Reports) -> None:
    async with broker_that() as (_, url), watched(url, reports):
        pass
    assert reports.reasons == []


async def test_only_the_latest_watcher_is_called(reports: Reports) -> None:
    former = Reports()
    async with broker_that() as (proxy, url), watched(url, former) as publisher:
        publisher.watch(reports)
        proxy.suffer(How.FIN)
        await reports.come()
    assert former.reasons == []


async def test_it_reports_after_it_was_opened_again(reports: Reports) -> None:
    async with broker_that() as (proxy, url), watched(url, reports) as publisher:
        proxy.suffer(How.FIN)
        await reports.come()
        await publisher.open()
        proxy.suffer(How.FIN)
        await reports.come(2)
