"""What five faults leave behind: both the message and its record, or neither."""

import asyncio
from urllib.parse import urlsplit

import pytest

from tests.examples.messaging.account import Account
from tests.examples.messaging.arrivals import Arrivals
from tests.examples.messaging.conftest import FACTORY, account_at, start_worker
from tests.examples.messaging.database import Database
from tests.support.command import Commands
from tests.support.listening import HOST
from tests.support.proxy import Fault, How, Proxy, proxy_to
from tests.support.server import serve
from tests.support.waiting import eventually

NEITHER, BOTH = (0, 0), (1, 1)
ALONE = {"Connection": "close"}
"""uvicorn closes a connection on which an answer was 500, some time after it."""
NO_CONNECTION = [Fault(how=How.RST, after_sent=1)] * 1_000


@pytest.mark.requirement("C8")
@pytest.mark.requirement("C18")
async def test_a_failure_before_the_event_leaves_neither(
    account: Account, database: Database
) -> None:
    body = await account.group_message_body()
    with database.refusing("group_messages", f"NEW.account_id = '{account.id}'"):
        answer = await account.ask("POST", "/group-messages", json=body, headers=ALONE)
    assert answer.status_code == 500
    assert database.left_behind(account.id) == NEITHER
    assert (await account.get("/templates"))["total"] == 0

    await account.post("/group-messages", **body)
    assert database.left_behind(account.id) == BOTH


@pytest.mark.requirement("C8")
async def test_a_failure_after_the_event_leaves_neither(
    account: Account, database: Database
) -> None:
    body = await account.group_message_body()
    with database.locking("outbox_events"):
        asked = asyncio.create_task(account.ask("POST", "/group-messages", json=body))
        await eventually(lambda: database.held_up("outbox_events", "INSERT"))
        database.terminate(*database.held_up("outbox_events", "INSERT"))
        answer = await asked
    assert answer.status_code == 503
    assert answer.json()["detail"].endswith("try again")
    assert database.left_behind(account.id) == NEITHER

    await account.post("/group-messages", **body)
    assert database.left_behind(account.id) == BOTH


@pytest.mark.requirement("C8")
@pytest.mark.requirement("C18")
async def test_a_commit_that_fails_leaves_neither(account: Account, database: Database) -> None:
    body = await account.group_message_body()
    ours = f"NEW.payload ->> 'account_id' = '{account.id}'"
    with database.refusing("outbox_events", ours, at_commit=True):
        answer = await account.ask("POST", "/group-messages", json=body, headers=ALONE)
    assert answer.status_code == 500
    assert database.left_behind(account.id) == NEITHER

    await account.post("/group-messages", **body)
    assert database.left_behind(account.id) == BOTH


@pytest.mark.requirement("C7")
@pytest.mark.requirement("C8")
async def test_without_a_wake_up_both_are_there_and_the_poll_delivers(
    commands: Commands,
    arrivals: Arrivals,
    own_database_url: str,
    own_database: Database,
    rabbitmq_url: str,
) -> None:
    async with proxy_to(port_of(own_database_url)) as proxy:
        urls = {"DATABASE_URL": through(proxy, own_database_url), "RABBITMQ_URL": rabbitmq_url}
        server = await asyncio.to_thread(serve, commands, FACTORY, **urls)
        poll = {"OUTBOX_POLL_INTERVAL": "1"}
        worker = start_worker(commands, own_database_url, rabbitmq_url, **poll)
        await worker.says("polls every 1 s")
        async with account_at(server) as account:
            body = await account.group_message_body()
            proxy.faults.extend(NO_CONNECTION)  # the wake-up needs one, the request has its own
            message = await account.post("/group-messages", **body)
            assert own_database.left_behind(account.id) == BOTH
            await server.command.says("cannot notify workers")
    assert await arrivals.types(message["id"], 1) == ["group_message.created"]


@pytest.mark.requirement("C8")
@pytest.mark.requirement("C17")
async def test_without_a_broker_both_are_there_and_arrive_when_it_is_back(
    commands: Commands,
    arrivals: Arrivals,
    own_database_url: str,
    own_database: Database,
    rabbitmq_url: str,
) -> None:
    urls = {"DATABASE_URL": own_database_url, "RABBITMQ_URL": rabbitmq_url}
    server = serve(commands, FACTORY, **urls)
    async with proxy_to(port_of(rabbitmq_url)) as proxy, account_at(server) as account:
        worker = start_worker(commands, own_database_url, through(proxy, rabbitmq_url))
        await worker.says("delivers from table")
        proxy.faults.extend(NO_CONNECTION)
        proxy.suffer(How.RST)
        message = await account.group_message()
        await worker.says("Deliveries are paused")
        [record] = own_database.records(message["id"])
        assert own_database.left_behind(account.id) == BOTH
        assert (record.status, record.retry_count, record.error_message) == ("pending", 0, None)

        proxy.faults.clear()
        assert await arrivals.types(message["id"], 1) == ["group_message.created"]
        await eventually(lambda: own_database.is_published(message["id"]))
    assert own_database.records(message["id"])[0].retry_count == 0


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None, "the services of the tests say where they are"
    return port


def through(proxy: Proxy, url: str) -> str:
    """Give the URL of the same server, by way of a proxy."""
    address = urlsplit(url)
    login, at, _ = address.netloc.rpartition("@")
    return address._replace(netloc=f"{login}{at}{HOST}:{proxy.port}").geturl()
