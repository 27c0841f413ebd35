"""A worker's /metrics, scraped by a real Prometheus."""

import sys
from pathlib import Path

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import UntypedEvent
from tests.integration.worker.prometheus import PANELS, prometheus_of, promtool, value
from tests.support.broker import Broker
from tests.support.command import Command, Commands
from tests.support.listening import HOST
from tests.support.rows import save
from tests.support.services import BROKER_SECRET, SECRET
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.no_cover  # others cover the same, for less time

CARD = "4111-1111-1111-1111"
LETTER = UntypedEvent(event_type="letter.sent", payload={"card": CARD}, aggregate_id="7")
MODULE = """
from prometheus_client import REGISTRY, Counter
from sqlalchemy.ext.asyncio import create_async_engine

from postroom import HandlersPublisher, Outbox, OutboxRelay, UntypedEvent, handles
from postroom.integrations.prometheus import OutboxCollector
from tests.support.shop import outbox

receipts = Counter("receipts", "Receipts sent.")


@handles("letter.sent")
class SendReceipt:
    async def handle(self, event: UntypedEvent) -> None:
        receipts.inc()


engine = create_async_engine({url!r})
collector = OutboxCollector()
"""
PLAIN = "relay = OutboxRelay(outbox, engine, HandlersPublisher())\n"
REGISTERED = """REGISTRY.register(collector)
relay = OutboxRelay(
    outbox, engine, HandlersPublisher(), observers=[collector.observer(outbox)]
)
"""


@pytest.fixture
def target(port: int) -> str:
    return f"{HOST}:{port}"


async def metrics(worker: Command, target: str, wanted: str) -> str:
    """Wait until the worker's metrics have a line, and give them all."""
    page = ""

    async def is_there() -> bool:
        nonlocal page
        assert not worker.ended, worker.err
        async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False) as client:
            try:
                answer = await client.get(f"http://{target}/metrics")
            except httpx.TransportError:
                return False
        page = answer.text
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return wanted in page

    await eventually(is_there, wanted)
    return page


@pytest.mark.extended
@pytest.mark.requirement("E8")
async def test_prometheus_scrapes_a_worker_and_evaluates_the_alerts(
    postroom: Commands,
    engine: AsyncEngine,
    database_url: str,
    broker: Broker,
    rabbitmq_url: str,
    target: str,
    tmp_path: Path,
) -> None:
    exchange = broker.exchange("letters")
    broker.queue("inbox", "#", exchange=exchange)
    words = ["--database", database_url, "--broker", rabbitmq_url, "--exchange", exchange]
    worker = postroom("worker", *words, "--health-port", target.rpartition(":")[2])
    await save(engine, LETTER)
    async with prometheus_of(target, tmp_path) as api:

        async def has(query: str, expected: float) -> None:
            async def is_so() -> bool:
                assert not worker.ended, worker.err
                return await value(api, query) == expected

            await eventually(is_so, query)

        await has('postroom_deliveries_total{outbox="outbox", event_type="letter.sent"}', 1)
        await has('postroom_workers{state="alive"}', 1)
        await has("postroom_listener_connected", 1)
        await has('postroom_breaker_state{breaker="publisher", state="closed"}', 1)
        await has("histogram_quantile(1, postroom_end_to_end_duration_seconds_bucket) < bool 60", 1)

        for query in PANELS:
            for name, given in {"$job": "worker", "$outbox": "outbox"}.items():
                query = query.replace(name, given)
            await value(api, query.replace("$__rate_interval", "5s"))  # it can be evaluated

        async def evaluated() -> bool:
            groups = (await api.get("/api/v1/rules")).json()["data"]["groups"]
            return {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}

        await eventually(evaluated)
    page = await metrics(worker, target, "postroom_workers")
    assert promtool("check", "metrics", stdin=page) == ""
    for secret in (SECRET, BROKER_SECRET, CARD):
        assert secret not in page
    assert await worker.stop() == 0


@pytest.mark.parametrize(
    "rest",
    [pytest.param(PLAIN, marks=pytest.mark.extended), REGISTERED],
    ids=["plain", "registered by the module"],
)
async def test_the_metrics_of_handlers_are_exported_beside_those_of_the_relay_once(
    rest: str, postroom: Commands, engine: AsyncEngine, postgres_url: str, target: str
) -> None:
    postroom.write("shop.py", MODULE.format(url=postgres_url) + rest)
    words = ["shop:relay", "--health-port", target.rpartition(":")[2]]
    worker = postroom("worker", *words, PYTHONPATH=":".join(sys.path))
    await save(engine, LETTER)
    page = await metrics(worker, target, "receipts_total 1.0")
    line = 'postroom_deliveries_total{event_type="letter.sent",outbox="outbox"} 1.0'
    page = await metrics(worker, target, line)
    assert page.count(line) == 1
    assert page.count("# TYPE postroom_deliveries_total ") == 1
