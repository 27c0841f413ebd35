"""Liveness and readiness of a server whose database goes away and comes back."""

import httpx
import psycopg
import pytest
from sqlalchemy import make_url

from tests.examples.accounts.conftest import FACTORY
from tests.support.command import Commands
from tests.support.server import serve
from tests.support.services import service_url
from tests.support.waiting import eventually

READY = {"status": "ok", "database": "ok", "relay": {"status": "ok", "reason": None}}


async def test_it_is_ready_while_the_database_can_be_used(client: httpx.AsyncClient) -> None:
    live, ready = await client.get("/health/live"), await client.get("/health/ready")
    assert (live.status_code, live.json()) == (200, {"status": "ok"})
    assert (ready.status_code, ready.json()) == (200, READY)


@pytest.mark.parametrize("dispatch", ["outbox", "in_process"])
async def test_it_is_live_and_not_ready_while_the_database_is_away(
    commands: Commands, own_database_url: str, dispatch: str
) -> None:
    server = serve(commands, FACTORY, DATABASE_URL=own_database_url, EVENT_DISPATCH=dispatch)

    async def ready_is(code: int) -> bool:
        return (await client.get("/health/ready")).status_code == code

    async with server.client() as client:
        allow_connections(own_database_url, False)
        await eventually(lambda: ready_is(503))
        assert (await client.get("/health/live")).status_code == 200
        allow_connections(own_database_url, True)
        await eventually(lambda: ready_is(200))
    assert "Traceback" not in server.command.err


def allow_connections(url: str, allowed: bool) -> None:
    """Let a database accept connections, or not; then its present ones end."""
    name = make_url(url).database or ""
    with psycopg.connect(service_url("POSTROOM_TEST_POSTGRES_URL"), autocommit=True) as server:
        server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {allowed}'.encode())
        if not allowed:
            query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
            server.execute(query, [name])
