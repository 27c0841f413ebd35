"""Liveness says that the process runs, readiness that it can serve; a broker decides neither."""

from typing import Any

import httpx
from postroom import MemoryPublisher
from waiting import eventually

from messaging.main import create_app
from messaging.settings import Settings

NO_DATABASE = "postgresql://app:secret@127.0.0.1:1/messaging"
NO_BROKER = "amqp://app:secret@127.0.0.1:1/"


async def ask(app: Any, path: str) -> tuple[int, Any]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answer = await client.get(path)
        return answer.status_code, answer.json()


async def test_without_a_database_it_lives_and_is_not_ready() -> None:
    app = create_app(Settings(database_url=NO_DATABASE, rabbitmq_url=NO_BROKER))
    async with app.router.lifespan_context(app):
        assert await ask(app, "/health/live") == (200, {"status": "ok"})
        status, body = await ask(app, "/health/ready")
    assert (status, body["status"], body["database"]) == (503, "unavailable", "unavailable")


async def test_without_a_broker_it_lives_and_is_ready(database_url: str) -> None:
    app = create_app(Settings(database_url=database_url, rabbitmq_url=NO_BROKER))
    async with app.router.lifespan_context(app):
        assert (await ask(app, "/health/live"))[0] == 200
        ready = {"status": "ok", "database": "ok", "relay": None}
        assert await ask(app, "/health/ready") == (200, ready)


async def test_a_relay_that_cannot_deliver_is_reported_and_changes_nothing(
    database_url: str,
) -> None:
    app = create_app(Settings(database_url=database_url))
    async with app.router.lifespan_context(app):
        publisher = app.state.relay.publisher
        assert isinstance(publisher, MemoryPublisher)
        publisher.outage = "stopped by the test"

        async def is_reported() -> bool:
            status, body = await ask(app, "/health/ready")
            assert (status, body["status"]) == (200, "ok")
            relay = body["relay"]
            return relay["status"] == "degraded" and "stopped by the test" in relay["reason"]

        await eventually(is_reported, "the outage is in the body")
        assert (await ask(app, "/health/live"))[0] == 200
