"""What a worker answers to whoever watches over it, and how it waits for what is away."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import pytest
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import UntypedEvent
from postroom.cli import health
from postroom.relay.health import Health, HealthStatus
from tests.support.broker import Broker
from tests.support.command import Command, Commands
from tests.support.listening import HOST, serving
from tests.support.proxy import Proxy
from tests.support.rows import all_delivered, save, until
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.no_cover  # others cover the same, for less time

LETTER = UntypedEvent(event_type="letter.sent", payload={})


async def answers(
    client: httpx.AsyncClient, worker: Command, path: str, code: int, status: str
) -> dict[str, Any]:
    """Wait until a question is answered so, and give the rest."""
    async with asyncio.timeout(PATIENCE):
        while True:
            assert not worker.ended, worker.err
            with suppress(httpx.TransportError):  # it does not listen yet
                answer = await client.get(path)
                document: dict[str, Any] = answer.json()
                if (answer.status_code, document.pop("status")) == (code, status):
                    return document
            await asyncio.sleep(0.02)


async def test_a_worker_that_delivers_is_live_and_ready(
    postroom: Commands,
    engine: AsyncEngine,
    database_url: str,
    broker: Broker,
    rabbitmq_url: str,
    client: httpx.AsyncClient,
    port: int,
) -> None:
    exchange = broker.exchange("letters")
    broker.queue("inbox", "#", exchange=exchange)
    words = ["--database", database_url, "--broker", rabbitmq_url, "--exchange", exchange]
    worker = postroom("worker", *words, "--health-port", str(port))
    assert await answers(client, worker, "/live", 200, "live") == {}
    assert await answers(client, worker, "/ready", 200, "ok") == {}
    assert (await client.get("/ready?probe=1")).status_code == 200
    head = await client.head("/live")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == "application/json"
    assert head.headers["server"] == "postroom"  # and no version
    unknown = await client.get("/nowhere")
    assert unknown.status_code == 404
    assert unknown.json() == {"error": "ask for /live or /ready or /metrics"}
    await save(engine, LETTER)
    await until(engine, all_delivered)
    assert await worker.stop() == 0
    assert "GET" not in worker.err  # nobody wants to read of every probe


async def test_a_worker_without_its_exchange_is_live_but_not_ready_and_says_why(
    postroom: Commands,
    database_url: str,
    rabbitmq_url: str,
    client: httpx.AsyncClient,
    port: int,
) -> None:
    exchange = "letters"
    words = ["--database", database_url, "--broker", rabbitmq_url, "--exchange", exchange]
    worker = postroom("worker", *words, "--wait", "--health-port", str(port))
    brief = await answers(client, worker, "/ready", 503, "degraded")
    assert brief.keys() == {"seconds"}  # no host, no user
    details = await answers(client, worker, "/ready?verbose", 503, "degraded")
    assert f"exchange `{exchange}`" in details["reason"]
    assert await answers(client, worker, "/live", 200, "live") == {}
    assert await worker.stop() == 0


async def test_an_event_loop_that_stands_still_is_neither_live_nor_ready(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "ANSWER_WITHIN", 0.1)
    fine = Health(status=HealthStatus.OK)
    async with health.health_server(HOST, port, lambda: fine, health.ROUTES):
        with ThreadPoolExecutor() as others:
            asked = [
                others.submit(httpx.get, f"http://{HOST}:{port}{path}", trust_env=False)
                for path in ("/live", "/ready")
            ]
            found = [each.result(PATIENCE) for each in asked]  # the event loop waits, too
    for answer in found:
        assert (answer.status_code, answer.json()) == (503, {"status": "stuck"})


async def test_a_port_that_is_taken_is_an_error(
    postroom: Commands, database_url: str, rabbitmq_url: str
) -> None:
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        words = ["--database", database_url, "--broker", rabbitmq_url]
        where = ["--health-host", HOST, "--health-port", str(port)]
        line = await postroom("worker", *words, *where).error_line(2)
    assert line.startswith(f"postroom worker: cannot listen on {HOST}:{port} for --health-port: ")
    assert "in use" in line


async def test_it_can_wait_for_a_broker_that_comes_later(
    postroom: Commands,
    engine: AsyncEngine,
    database_url: str,
    broker: Broker,
    rabbitmq_url: str,
    port: int,
) -> None:
    exchange = broker.exchange("letters")
    queue = broker.queue("inbox", "#", exchange=exchange)
    await save(engine, LETTER)
    later = make_url(rabbitmq_url).set(port=port).render_as_string(hide_password=False)
    words = ["--database", database_url, "--broker", later, "--exchange", exchange]
    worker = postroom("worker", *words, "--wait")
    await worker.says(f"cannot reach RabbitMQ at {HOST}:{port}")
    proxy = Proxy(make_url(rabbitmq_url).port or 5672)
    async with serving(proxy.serve, port):
        assert len(await broker.consume(queue, 1)) == 1
        assert await worker.stop() == 0
    await until(engine, all_delivered)
