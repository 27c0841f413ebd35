"""Liveness and readiness: an outage of the broker fails neither, one of the database the second."""

from conftest import eventually, serving

from family.settings import Settings

NOBODY = "127.0.0.1:1"
"""An address where no server listens."""


async def test_with_both_servers_it_is_live_and_ready(publishing: Settings) -> None:
    async with serving(publishing) as http:
        assert (await http.get("/health/live")).json() == {"status": "ok"}
        ready = await http.get("/health/ready")
    assert ready.status_code == 200
    relay = {"status": "ok", "reason": None}
    assert ready.json() == {"status": "ok", "database": "ok", "relay": relay}


async def test_with_a_worker_it_does_not_speak_for_the_publisher(settings: Settings) -> None:
    async with serving(settings) as http:
        ready = (await http.get("/health/ready")).json()
    assert ready == {"status": "ok", "database": "ok", "relay": None}


async def test_without_a_broker_it_is_live_and_ready(settings: Settings) -> None:
    settings.publish_in_application = True
    settings.rabbitmq_url = f"amqp://guest:guest@{NOBODY}/"
    async with serving(settings) as http:

        async def is_degraded() -> bool:
            ready = await http.get("/health/ready")
            assert (ready.status_code, ready.json()["status"]) == (200, "ok")
            return bool(ready.json()["relay"]["status"] == "degraded")

        await eventually(is_degraded)
        reason = (await http.get("/health/ready")).json()["relay"]["reason"]
        assert "RabbitMQ at 127.0.0.1:1" in reason
        assert (await http.get("/health/live")).status_code == 200


async def test_without_a_database_it_is_live_and_not_ready(settings: Settings) -> None:
    settings.database_url = f"postgresql://app:secret@{NOBODY}/family"
    async with serving(settings) as http:
        assert (await http.get("/health/live")).status_code == 200
        ready = await http.get("/health/ready")
    assert ready.status_code == 503
    assert ready.json() == {"status": "unavailable", "database": "unavailable", "relay": None}
