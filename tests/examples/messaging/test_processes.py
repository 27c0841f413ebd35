"""The API and the worker, stopped amid requests and started again."""

import asyncio
import signal

import httpx
import pytest

from examples.messaging.tests.account import Account
from tests.examples.messaging.conftest import FACTORY, account_at, start_worker
from tests.examples.messaging.database import Database
from tests.examples.server import serve
from tests.support.broker import Broker
from tests.support.command import Commands
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended
CLIENTS = 8
AUDIT = {"RABBITMQ_AUDIT_QUEUE": "true"}


@pytest.mark.requirement("C15")
@pytest.mark.requirement("C16")
async def test_stopped_amid_requests_they_lose_nothing_and_go_on_in_order(
    commands: Commands, database_url: str, database: Database, rabbitmq_url: str, broker: Broker
) -> None:
    urls = {"DATABASE_URL": database_url, "RABBITMQ_URL": rabbitmq_url}
    worker = start_worker(commands, database_url, rabbitmq_url, **AUDIT)
    server = serve(commands, FACTORY, **urls)
    await worker.says("delivers from table")
    steps: dict[str, list[str]] = {}
    async with account_at(server) as account:
        body = await account.body("/group-messages")
        clients = [asyncio.create_task(keep_sending(account, body, steps)) for _ in range(CLIENTS)]
        await eventually(lambda: len(steps) > 2 * CLIENTS)
        assert await worker.stop() == 0
        assert await server.command.stop() == -signal.SIGTERM
        await asyncio.gather(*clients)
    for message_id, told in steps.items():
        assert database.events(message_id)[: len(told)] == told
    assert "Traceback" not in worker.err + server.command.err

    start_worker(commands, database_url, rabbitmq_url, **AUDIT)
    async with account_at(serve(commands, FACTORY, **urls)) as again:
        client = Account(again.client, account.id, account.user_id)
        drafts = database.rows("SELECT id::text FROM group_messages WHERE status = 'draft'")
        await asyncio.gather(*(client.change({"id": each}, status="queued") for [each] in drafts))
        await client.group_message()
    undelivered = "SELECT 1 FROM outbox_events WHERE status <> 'published'"
    await eventually(lambda: not database.rows(undelivered))
    arrived: dict[str, dict[str, None]] = {}
    for each in broker.take("messaging_audit"):
        step = each.routing_key.partition(".")[2]
        arrived.setdefault(each.headers["aggregate_id"], {})[step] = None  # without repeats
    for [message_id] in database.rows("SELECT id::text FROM group_messages"):
        assert list(arrived[message_id]) == database.events(message_id)


async def keep_sending(
    account: Account, body: dict[str, object], steps: dict[str, list[str]]
) -> None:
    """Send one message after the other, each in two steps, until the server is gone."""
    try:
        while True:
            message = await account.post("/group-messages", **body)
            steps[message["id"]] = ["created"]
            await account.change(message, status="queued")
            steps[message["id"]].append("queued")
    except httpx.TransportError:
        return
