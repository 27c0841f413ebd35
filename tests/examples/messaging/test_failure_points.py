"""What faults leave behind: both the message and its record, or neither."""

import asyncio

import pytest

from examples.messaging.tests.account import Account
from tests.examples.applications import proxied
from tests.examples.messaging.conftest import FACTORY, account_at, start_worker
from tests.examples.messaging.database import Database
from tests.examples.server import Server, serve
from tests.support.command import Commands
from tests.support.proxy import Fault, How
from tests.support.waiting import eventually

NEITHER, BOTH = (0, 0), (1, 1)
NO_CONNECTION = [Fault(how=How.RST, after_sent=1)] * 1_000


@pytest.mark.requirement("C8")
@pytest.mark.requirement("C18")
@pytest.mark.parametrize(
    ("table", "account_id", "at_commit"),
    [
        ("group_messages", "NEW.account_id::text", False),
        ("outbox_events", "NEW.payload ->> 'account_id'", False),
        ("outbox_events", "NEW.payload ->> 'account_id'", True),
    ],
    ids=["before the event", "after the event", "at the commit"],
)
async def test_a_failure_in_the_transaction_leaves_neither(
    account: Account,
    server: Server,
    shared_database: Database,
    table: str,
    account_id: str,
    at_commit: bool,
) -> None:
    body = await account.body("/group-messages")
    ours = f"{account_id} = '{account.id}'"
    # A client of its own: uvicorn closes a connection after an answer 500, some time later.
    with shared_database.refusing(table, ours, at_commit=at_commit):
        async with server.client() as client:
            other = Account(client, account.id, account.user_id)
            answer = await other.ask("POST", "/group-messages", json=body)
    assert answer.status_code == 500
    assert shared_database.left_behind(account.id) == NEITHER

    await account.post("/group-messages", **body)
    assert shared_database.left_behind(account.id) == BOTH


@pytest.mark.extended
@pytest.mark.requirement("C7")
@pytest.mark.requirement("C8")
async def test_without_a_wake_up_both_are_there_and_the_poll_delivers(
    commands: Commands, database_url: str, database: Database, rabbitmq_url: str
) -> None:
    async with proxied(database_url) as (proxy, url):
        urls = {"DATABASE_URL": url, "RABBITMQ_URL": rabbitmq_url}
        server = await asyncio.to_thread(serve, commands, FACTORY, **urls)
        worker = start_worker(commands, database_url, rabbitmq_url, OUTBOX_POLL_INTERVAL="1")
        await worker.says("polls every 1 s")
        async with account_at(server) as account:
            body = await account.body("/group-messages")
            proxy.faults.extend(NO_CONNECTION)  # the wake-up needs one, the request has its own
            message = await account.post("/group-messages", **body)
            assert database.left_behind(account.id) == BOTH
            await server.command.says("cannot notify workers")
    await eventually(lambda: database.is_published(message["id"]))
