"""A second signal ends `postroom worker` at once, whatever its servers do or do not answer."""

import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import Status, UntypedEvent
from tests.support.broker import Broker
from tests.support.command import ROOT, Command, Commands
from tests.support.proxy import How, Proxy, proxy_to
from tests.support.rows import all_delivered, rows, save, until
from tests.support.shop import outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.no_cover  # others cover the same, for less time


class Network:
    """Leads to PostgreSQL and RabbitMQ, as long as it is not stalled."""

    def __init__(self, database: Proxy, broker: Proxy) -> None:
        self.database = database
        self.broker = broker


@pytest.fixture
async def network(postgres_url: str, rabbitmq_url: str) -> AsyncIterator[Network]:
    ports = [make_url(url).port or 0 for url in (postgres_url, rabbitmq_url)]
    async with AsyncExitStack() as stack:
        yield Network(*[await stack.enter_async_context(proxy_to(port)) for port in ports])


def through(proxy: Proxy, url: str, **query: str) -> str:
    """Give the URL of a server behind a proxy."""
    behind = make_url(url).set(host="127.0.0.1", port=proxy.port).update_query_dict(query)
    return behind.render_as_string(hide_password=False)


def letter() -> UntypedEvent:
    return UntypedEvent(event_type="letter.sent", payload={})


async def tell_twice(worker: Command) -> int:
    """Send two signals; give the exit code."""
    worker.tell(signal.SIGTERM)
    await worker.says("SIGTERM, finishes")
    worker.tell(signal.SIGINT)
    return await worker.code()


@pytest.mark.requirement("C15")
@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
async def test_it_ends_although_the_network_swallows_everything(
    postroom: Commands,
    engine: AsyncEngine,
    postgres_url: str,
    broker: Broker,
    rabbitmq_url: str,
    network: Network,
    busy: bool,
) -> None:
    exchange = broker.exchange("letters")
    broker.queue("inbox", "#", exchange=exchange)
    worker = postroom(
        "worker",
        "tests.integration.worker.gated_app:to_rabbitmq",
        PYTHONPATH=str(ROOT),
        SHOP_DATABASE=through(network.database, postgres_url),
        SHOP_BROKER=through(network.broker, rabbitmq_url, heartbeat="0"),
        SHOP_EXCHANGE=exchange,
    )
    notifier = outbox.notify_workers(engine)
    await save(engine, letter())
    await until(engine, all_delivered)
    network.broker.go_away(How.STALL)
    if busy:
        await save(engine, letter())
        await eventually(lambda: network.broker.swallowed, "a delivery is under way")
    network.database.go_away(How.STALL)
    notifier.close()

    assert await tell_twice(worker) == 128 + signal.SIGINT
    assert "Traceback" not in worker.err
    assert {row.retry_count for row in await rows(engine)} == {0}


@pytest.mark.requirement("C15")
async def test_it_ends_although_the_publisher_never_closes(
    postroom: Commands, engine: AsyncEngine, postgres_url: str, tmp_path: Path
) -> None:
    await save(engine, letter())
    worker = postroom(
        "worker",
        "tests.integration.worker.gated_app:relay",
        PYTHONPATH=str(ROOT),
        SHOP_DATABASE=postgres_url,
        SHOP_GATE="unclosable",
    )
    await eventually((tmp_path / "started").exists)
    assert await tell_twice(worker) == 128 + signal.SIGINT
    assert [row.status for row in await rows(engine)] == [Status.PENDING]
