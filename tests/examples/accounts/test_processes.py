"""Processes that are killed or stopped at a bad moment: the next one finishes their work."""

import asyncio
import signal

import httpx
import pytest

from tests.examples.accounts.conftest import FACTORY
from tests.examples.accounts.database import Database
from tests.examples.accounts.people import sign_up, sign_up_body
from tests.support.command import Commands
from tests.support.server import Server, serve
from tests.support.waiting import eventually

HANDLERS = 2
"""Of AccountCreated."""
STREAMS = 4


@pytest.mark.requirement("A19")
async def test_crashes_in_between_leave_one_profile_and_count_against_nobody(
    commands: Commands, own_database_url: str, own_database: Database
) -> None:
    settings = {"DATABASE_URL": own_database_url, "OUTBOX_LEASE": "1"}
    server = serve(commands, FACTORY, **settings)
    with own_database.holding_up("INSERT", "outbox_inbox"):  # where handlers are noted as done
        async with server.client() as client:
            account_id = (await sign_up(client))["account_id"]
        await killed_once_held_up(server, own_database, HANDLERS)

    with own_database.holding_up("UPDATE", "outbox"):  # where the record is noted as delivered
        server = serve(commands, FACTORY, **settings)
        await killed_once_held_up(server, own_database, 1)
    assert own_database.profiles(account_id) == 1
    assert own_database.record(account_id).status == "pending"

    serve(commands, FACTORY, **settings)
    await eventually(lambda: own_database.is_delivered(account_id))
    assert own_database.profiles(account_id) == 1
    assert own_database.record(account_id).retry_count == 0


async def killed_once_held_up(server: Server, database: Database, waiting: int) -> None:
    """Kill a server, and what it has left waiting in the database."""
    await eventually(lambda: database.held_up() == waiting)
    server.command.tell(signal.SIGKILL)
    await server.command.code()
    database.end_what_waits()


@pytest.mark.requirement("A19")
async def test_whoever_was_told_of_an_account_has_it_and_a_profile_after_a_shutdown(
    commands: Commands, own_database_url: str, own_database: Database
) -> None:
    server = serve(commands, FACTORY, DATABASE_URL=own_database_url)
    told = await stopped_amid_sign_ups(server)
    for account_id in told:
        assert own_database.count("accounts", "account_id", account_id) == 1
        assert own_database.count("outbox", "aggregate_id", account_id) == 1

    serve(commands, FACTORY, DATABASE_URL=own_database_url)
    pending = "SELECT 1 FROM outbox WHERE status <> 'published'"
    await eventually(lambda: not own_database.rows(pending))
    accounts = own_database.rows("SELECT account_id FROM accounts ORDER BY 1")
    assert own_database.rows("SELECT account_id FROM profiles ORDER BY 1") == accounts
    assert len(accounts) >= len(told)
    assert own_database.rows("SELECT 1 FROM outbox WHERE retry_count > 0") == []


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
            answer = await client.post("/sign-up", json=sign_up_body())
        except httpx.TransportError:
            return
        assert answer.status_code == 201, answer.text
        told.append(answer.json()["account_id"])
