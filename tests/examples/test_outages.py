"""A database that is away when an application starts, comes back, and stops to answer."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tests.examples.applications import own_database, proxied, start
from tests.support.command import Commands
from tests.support.proxy import How
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended

HEADERS = {"X-User-Id": str(UUID(int=1)), "X-User-Email": "ann@example.com"}
HEADERS |= {"X-Account-Id": str(UUID(int=2))}
FAMILY = 'mutation { createFamily(name: "Smith") { __typename } }'
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "accounts": ("/sign-up", {"email": "ann@example.com", "password": "correct horse battery"}),
    "family": ("/graphql", {"query": FAMILY}),
    "messaging": ("/channels", {"name": "SMS", "kind": "sms"}),
}


@pytest.mark.parametrize(("application", "path", "body"), [(k, *v) for k, v in REQUESTS.items()])
async def test_it_lives_says_so_and_works_again_when_its_database_is_back(
    application: str, path: str, body: dict[str, Any], commands: Commands
) -> None:
    with own_database(application) as database_url:
        async with proxied(database_url) as (proxy, url):
            proxy.go_away(How.RST)
            server = await asyncio.to_thread(start, commands, application, url)
            async with server.client() as client:

                async def post() -> int:
                    return (await client.post(path, json=body, headers=HEADERS)).status_code

                async def is_ready() -> bool:
                    assert (await client.get("/health/live")).status_code == 200
                    return (await client.get("/health/ready")).status_code == 200

                assert await post() == 503
                assert not await is_ready()
                proxy.come_back()
                await eventually(is_ready)
                assert await post() in (200, 201)
                proxy.go_away(How.STALL)
                assert not await is_ready()
                proxy.come_back()
                await eventually(is_ready)
    assert "Traceback" not in server.command.err
