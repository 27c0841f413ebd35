"""What an outage does to liveness and readiness: of the database, and of the broker."""

import asyncio
from typing import Any

import httpx

from tests.examples.messaging.conftest import FACTORY
from tests.examples.messaging.test_failure_points import port_of, through
from tests.support.command import Commands
from tests.support.proxy import How, proxy_to
from tests.support.server import Server, serve
from tests.support.waiting import eventually

NO_BROKER = "amqp://app:hunter2@127.0.0.1:1/"
LIVE = (200, {"status": "ok"})
READY = (200, {"status": "ok", "database": "ok", "relay": None})
NOT_READY = (503, {"status": "unavailable", "database": "unavailable", "relay": None})


async def test_an_outage_of_the_database_makes_it_unready_and_leaves_it_alive(
    commands: Commands, own_database_url: str
) -> None:
    async with proxy_to(port_of(own_database_url)) as proxy:
        urls = {"DATABASE_URL": through(proxy, own_database_url), "RABBITMQ_URL": NO_BROKER}
        server = await asyncio.to_thread(serve, commands, FACTORY, **urls)
        async with server.client() as client:
            assert await both(client) == (LIVE, READY)  # the broker is away all the time
            for how in (How.RST, How.STALL):
                proxy.go_away(how)
                assert await both(client) == (LIVE, NOT_READY)
                proxy.come_back()
                await eventually(lambda: is_ready(client))
    assert_no_secret(server)


async def is_ready(client: httpx.AsyncClient) -> bool:
    return await both(client) == (LIVE, READY)


async def both(client: httpx.AsyncClient) -> tuple[tuple[int, Any], tuple[int, Any]]:
    live, ready = await client.get("/health/live"), await client.get("/health/ready")
    return (live.status_code, live.json()), (ready.status_code, ready.json())


def assert_no_secret(server: Server) -> None:
    assert "hunter2" not in server.command.out + server.command.err
    assert "Traceback" not in server.command.err
