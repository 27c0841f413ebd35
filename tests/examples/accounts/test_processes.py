"""Processes that are killed or stopped at a bad moment: the next one finishes their work."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.examples.accounts.database import Database
from tests.examples.applications import own_database
from tests.examples.server import Server, serve
from tests.support.command import Commands
from tests.support.waiting import eventually

FACTORY = "accounts.main:create_app"
PASSWORD = "correct horse battery staple"
HANDLERS = 2
"""Of AccountCreated."""
STREAMS = 4

Serve = Callable[[], Server]


@pytest.fixture
def database_url() -> Iterator[str]:
    with own_database("accounts") as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with Database(database_url) as database:
        yield database


@pytest.fixture
def server(commands: Commands, database_url: str) -> Serve:
    """Start a server on the database of the test."""
    return lambda: serve(commands, FACTORY, DATABASE_URL=database_url, OUTBOX_LEASE="1")


async def sign_up(client: httpx.AsyncClient) -> dict[str, Any]:
    body = {"email": f"ann.{uuid4().hex}@example.com", "password": PASSWORD}
    answer = await client.post("/sign-up", json=body)
    assert answer.status_code == 201, answer.text
    account: dict[str, Any] = answer.json()
    return account


@pytest.mark.requirement("A19")
async def test_a_sign_up_leads_to_one_profile_though_servers_are_killed_in_between(
    server: Serve, database: Database
) -> None:
    first = server()
    with database.holding_up("INSERT", "outbox_inbox"):  # where handlers are noted as done
        async with first.client() as client:
            account = await sign_up(client)
        await killed_once_held_up(first, database, HANDLERS)
    assert database.accounts() == database.accounts("outbox") == [account["account_id"]]

    second = server()
    with database.holding_up("UPDATE", "outbox"):  # where the record is noted as delivered
        await killed_once_held_up(second, database, 1)
    assert database.accounts("profiles") == database.accounts()
    assert database.records() == [("pending", 0)]

    third = server()
    await eventually(database.all_is_delivered)
    assert database.records() == [("published", 0)]
    async with third.client() as client:
        profile = await client.get(f"/profiles/{account['account_id']}")
    name = account["email"].partition("@")[0]
    assert profile.json() == {"account_id": account["account_id"], "display_name": name}
    log = first.command.err + second.command.err + third.command.err
    assert f"account {account['account_id']} was created" in log
    assert PASSWORD not in log
    assert account["email"] not in log


async def killed_once_held_up(server: Server, database: Database, waiting: int) -> None:
    """Kill a server, and what it has left waiting in the database."""
    await eventually(lambda: database.held_up() == waiting)
    server.command.tell(signal.SIGKILL)
    await server.command.code()
    database.end_what_waits()


@pytest.mark.extended
async def test_whoever_was_told_of_an_account_has_it_and_a_profile_after_a_shutdown(
    server: Serve, database: Database
) -> None:
    told = await stopped_amid_sign_ups(server())
    accounts = database.accounts()
    assert set(told) <= set(accounts) == set(database.accounts("outbox"))

    server()
    await eventually(database.all_is_delivered)
    assert database.accounts("profiles") == accounts
    assert database.records() == [("published", 0)] * len(accounts)


async def stopped_amid_sign_ups(server: Server) -> list[str]:
    """Stop a server that is at work; give the accounts that it has told of."""
    told: list[str] = []
    async with server.client() as client:
        streams = [asyncio.create_task(keep_signing_up(client, told)) for _ in range(STREAMS)]
        await eventually(lambda: len(told) > 2 * STREAMS)
        # uvicorn ends in good order, and then as the signal would have ended it.
        assert await server.command.stop() == -signal.SIGTERM
        await asyncio.gather(*streams)
    assert "Application shutdown complete" in server.command.err
    assert "Traceback" not in server.command.err
    return told


async def keep_signing_up(client: httpx.AsyncClient, told: list[str]) -> None:
    """Sign up one after the other, until the server is gone."""
    while True:
        try:
            told.append((await sign_up(client))["account_id"])
        except httpx.TransportError:
            return
