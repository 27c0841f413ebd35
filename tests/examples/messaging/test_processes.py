"""The API, the worker and a consumer as three processes: together, stopped, started again."""

import asyncio
import signal

import httpx
import pytest

from tests.examples.messaging.account import Account
from tests.examples.messaging.arrivals import Arrivals
from tests.examples.messaging.conftest import FACTORY, account_at, start_worker
from tests.examples.messaging.database import Database
from tests.support.command import Commands
from tests.support.server import serve
from tests.support.waiting import eventually

AUDIT = ("-m", "messaging.audit")
CLIENTS, MESSAGES = 8, 200


@pytest.mark.requirement("C15")
async def test_what_is_sent_to_one_is_printed_by_another_and_each_stops_in_good_order(
    commands: Commands, own_database_url: str, rabbitmq_url: str
) -> None:
    urls = {"DATABASE_URL": own_database_url, "RABBITMQ_URL": rabbitmq_url}
    worker = start_worker(commands, own_database_url, rabbitmq_url)
    server = serve(commands, FACTORY, **urls)
    await worker.says("delivers from table")
    audit, other = (commands.python(*AUDIT, **urls) for _ in range(2))
    await audit.says("waits for messages of messaging_audit")
    await other.says("waits for messages of messaging_audit")
    other.tell(signal.SIGINT)
    assert await other.code() == 0
    async with account_at(server) as account:
        message = await account.group_message("queued")
    await audit.prints(f"group_message.created      {message['id']}  draft\n")
    await audit.prints(f"group_message.queued       {message['id']}  queued\n")

    # uvicorn ends in good order, and then as the signal would have ended it.
    assert await server.command.stop() == -signal.SIGTERM
    assert await worker.stop() == 0
    assert await audit.stop() == 0
    assert audit.err.endswith("audit: has stopped\n")
    assert "Application shutdown complete" in server.command.err
    assert not any("Traceback" in each.out + each.err for each in commands.everyone)


@pytest.mark.requirement("C15")
@pytest.mark.requirement("C16")
async def test_stopped_amid_requests_they_lose_nothing_and_go_on_in_order(
    commands: Commands,
    arrivals: Arrivals,
    own_database_url: str,
    own_database: Database,
    rabbitmq_url: str,
) -> None:
    urls = {"DATABASE_URL": own_database_url, "RABBITMQ_URL": rabbitmq_url}
    worker = start_worker(commands, own_database_url, rabbitmq_url)
    server = serve(commands, FACTORY, **urls)
    await worker.says("delivers from table")
    steps: dict[str, list[str]] = {}
    async with account_at(server) as account:
        clients = [asyncio.create_task(keep_sending(account, steps)) for _ in range(CLIENTS)]
        await eventually(lambda: len(steps) > 2 * CLIENTS)
        assert await worker.stop() == 0
        assert await server.command.stop() == -signal.SIGTERM
        await asyncio.gather(*clients)
    for message_id, told in steps.items():
        assert own_database.events(message_id)[: len(told)] == told
    assert "Traceback" not in worker.err + server.command.err

    start_worker(commands, own_database_url, rabbitmq_url)
    server = serve(commands, FACTORY, **urls)
    async with account_at(server) as again:
        client = Account(again.client, account.id, account.user_id)
        listed = await client.get("/group-messages")
        await asyncio.gather(*(finish(client, each) for each in listed["items"]))
    undelivered = "SELECT 1 FROM outbox_events WHERE status <> 'published'"
    await eventually(lambda: not own_database.rows(undelivered))
    for [message_id] in own_database.rows("SELECT id::text FROM group_messages"):
        assert first_of_each(arrivals, message_id) == own_database.events(message_id)


async def keep_sending(account: Account, steps: dict[str, list[str]]) -> None:
    """Send one message after the other, each in two steps, until the server is gone."""
    body = await account.group_message_body()
    while len(steps) < MESSAGES:
        try:
            message = await account.post("/group-messages", **body)
            steps[message["id"]] = ["created"]
            await account.patch(f"/group-messages/{message['id']}", status="queued")
            steps[message["id"]].append("queued")
        except httpx.TransportError:
            return


async def finish(account: Account, message: dict[str, object]) -> None:
    """Take a message to its next step, whichever that is."""
    status = "queued" if message["status"] == "draft" else "processing"
    await account.patch(f"/group-messages/{message['id']}", status=status)


def first_of_each(arrivals: Arrivals, message_id: str) -> list[str]:
    """Give what arrived about a message, in its order, without what came again."""
    types = [each.routing_key.partition(".")[2] for each in arrivals.now(message_id)]
    return list(dict.fromkeys(types))
