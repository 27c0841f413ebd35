"""The consumer as a process: once, through kills, outages and failures."""

import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from tests.examples.messaging.account import Account
from tests.examples.messaging.conftest import FACTORY, account_at, start_worker
from tests.examples.messaging.database import Database
from tests.examples.messaging.test_failure_points import port_of, through
from tests.support.broker import Broker
from tests.support.command import Command, Commands, commands_in
from tests.support.migrated import Template
from tests.support.proxy import How, proxy_to
from tests.support.rabbitmq import temporary_vhost
from tests.support.server import Server, serve
from tests.support.waiting import eventually

QUEUE = "group_message_processing"
CONSUMES = "consumes group_message_processing, scheduled_message_processing"
NO_BROKER = "amqp://app:hunter2@127.0.0.1:1/"


@dataclass(frozen=True)
class Installation:
    """An API and a worker, with a database and a vhost that only consumers of this module use."""

    database_url: str
    rabbitmq_url: str
    server: Server
    database: Database
    broker: Broker

    def consumer(self, commands: Commands, **environment: str) -> Command:
        """Start a consumer."""
        urls = {"DATABASE_URL": self.database_url, "RABBITMQ_URL": self.rabbitmq_url}
        return commands.python("-m", "messaging.consumer", **{**urls, **environment})

    def deliveries(self, message_id: str) -> list[str]:
        """Return who was sent a message, once for each time."""
        query = "SELECT recipient FROM deliveries WHERE message_id = %s ORDER BY recipient"
        return [recipient for [recipient] in self.database.rows(query, message_id)]

    def status(self, message_id: str) -> str:
        query = "SELECT status FROM group_messages WHERE id = %s"
        return str(self.database.rows(query, message_id)[0][0])

    def is_completed(self, message_id: str) -> bool:
        return self.status(message_id) == "completed"


@pytest.fixture(scope="module")
def installation(
    template: Template, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    with (
        template.copy() as database_url,
        temporary_vhost() as rabbitmq_url,
        commands_in(tmp_path_factory.mktemp("consumer"), "guest:guest") as commands,
        Database(database_url) as database,
    ):
        start_worker(commands, database_url, rabbitmq_url, RABBITMQ_AUDIT_QUEUE="false")
        urls = {"DATABASE_URL": database_url, "RABBITMQ_URL": rabbitmq_url}
        server = serve(commands, FACTORY, **urls)
        broker = Broker(rabbitmq_url)
        yield Installation(database_url, rabbitmq_url, server, database, broker)
        broker.close()


@pytest.fixture
async def account(installation: Installation) -> AsyncIterator[Account]:
    async with account_at(installation.server) as account:
        yield account


async def test_a_queued_message_is_sent_to_each_recipient_and_completed(
    commands: Commands, installation: Installation, account: Account
) -> None:
    installation.consumer(commands)
    message = (await account.group_message("queued"))["id"]
    await eventually(partial(installation.is_completed, message))
    assert installation.deliveries(message) == ["ann", "bob"]
    steps = ["created", "queued", "processing", "completed"]
    assert installation.database.events(message) == steps
    await eventually(lambda: installation.database.is_published(message))
    told = installation.database.records(message)
    assert {each.payload["user_id"] for each in told} == {account.user_id}
    assert told[1].payload["request_id"] == told[3].payload["request_id"]
    listed = await account.get("/deliveries", message_id=message)
    assert {each["recipient"] for each in listed["items"]} == {"ann", "bob"}


async def test_killed_between_commit_and_acknowledgement_it_has_no_second_effect(
    commands: Commands, installation: Installation, account: Account
) -> None:
    urls = {"DATABASE_URL": installation.database_url, "RABBITMQ_URL": installation.rabbitmq_url}
    module = "tests.examples.messaging.unacknowledging_consumer"
    killed = commands.python("-m", module, **urls)
    message = (await account.group_message("queued"))["id"]
    await killed.prints("committed")
    assert installation.deliveries(message) == ["ann", "bob"]
    killed.tell(signal.SIGKILL)
    assert await killed.code() == -signal.SIGKILL

    consumer = installation.consumer(commands)
    await consumer.says("was processed before")
    assert installation.deliveries(message) == ["ann", "bob"]
    steps = ["created", "queued", "processing", "completed"]
    assert installation.database.events(message) == steps
    assert await consumer.stop() == 0
    assert installation.broker.waiting(QUEUE) == 0


async def test_what_fails_again_and_again_is_a_dead_letter_that_can_be_sent_back(
    commands: Commands, installation: Installation, account: Account
) -> None:
    consumer = installation.consumer(commands, CONSUMER_MAX_ATTEMPTS="2")
    with installation.database.refusing("deliveries", f"NEW.account_id = '{account.id}'"):
        message = (await account.group_message("queued"))["id"]
        await consumer.says("is rejected after 2 attempts")
    await eventually(lambda: installation.broker.waiting("messaging.dlq") == 1)
    assert (installation.status(message), installation.deliveries(message)) == ("queued", [])
    assert installation.database.events(message) == ["created", "queued"]

    [(dead, properties)] = installation.broker.take_raw("messaging.dlq")
    assert dead.headers["aggregate_id"] == message
    installation.broker.publish("messaging", dead.routing_key, dead.body, properties)
    await eventually(partial(installation.is_completed, message))
    assert installation.deliveries(message) == ["ann", "bob"]


@pytest.mark.parametrize("body", [b"no JSON", b"[]", b"{}", b'{"id": 7}'])
async def test_what_cannot_be_read_is_a_dead_letter_at_once(
    commands: Commands, installation: Installation, body: bytes
) -> None:
    consumer = installation.consumer(commands)
    installation.broker.publish("messaging", "group_message.queued", body)
    await consumer.says("is rejected")
    await eventually(lambda: installation.broker.waiting("messaging.dlq") == 1)
    assert [each.body for each in installation.broker.take("messaging.dlq")] == [body]
    assert "Traceback" not in consumer.err


async def test_sigterm_finishes_what_is_in_flight(
    commands: Commands, installation: Installation, account: Account
) -> None:
    consumer = installation.consumer(commands)
    await consumer.says(CONSUMES)
    with installation.database.locking("deliveries"):
        message = (await account.group_message("queued"))["id"]
        await eventually(lambda: installation.database.held_up("deliveries", "INSERT"))
        consumer.tell(signal.SIGTERM)
    assert await consumer.code() == 0
    assert consumer.err.endswith("has stopped\n")
    assert "WARNING" not in consumer.err
    assert installation.is_completed(message)
    assert installation.deliveries(message) == ["ann", "bob"]
    again = installation.consumer(commands)
    await eventually(lambda: installation.broker.waiting(QUEUE) == 0)
    assert await again.stop() == 0
    assert "was processed before" not in again.err  # it was acknowledged


async def test_it_connects_again_when_the_broker_is_back(
    commands: Commands, installation: Installation, account: Account
) -> None:
    async with proxy_to(port_of(installation.rabbitmq_url)) as proxy:
        url = through(proxy, installation.rabbitmq_url)
        consumer = installation.consumer(commands, RABBITMQ_URL=url)
        await consumer.says(CONSUMES)
        proxy.suffer(How.RST)
        await consumer.says("is lost")
        message = (await account.group_message("queued"))["id"]
        await eventually(partial(installation.is_completed, message))
        assert await consumer.stop() == 0
    assert installation.deliveries(message) == ["ann", "bob"]
    assert "Traceback" not in consumer.err


async def test_while_the_database_is_away_a_message_waits_and_counts_no_attempt(
    commands: Commands, installation: Installation, account: Account
) -> None:
    async with proxy_to(port_of(installation.database_url)) as proxy:
        url = through(proxy, installation.database_url)
        consumer = installation.consumer(commands, DATABASE_URL=url, CONSUMER_MAX_ATTEMPTS="1")
        await consumer.says(CONSUMES)
        proxy.go_away(How.RST)
        message = (await account.group_message("queued"))["id"]
        await consumer.says("the database is away")
        proxy.come_back()
        await eventually(partial(installation.is_completed, message))
        assert await consumer.stop() == 0
    assert installation.broker.waiting("messaging.dlq") == 0


async def test_it_consumes_again_when_a_deleted_queue_is_declared_again(
    commands: Commands, installation: Installation, account: Account
) -> None:
    consumer = installation.consumer(commands)
    await consumer.says(CONSUMES)
    installation.broker.delete_queue(QUEUE)
    await consumer.says("a queue was deleted")
    message = (await account.group_message("queued"))["id"]  # the worker declares it
    await eventually(partial(installation.is_completed, message))


async def test_a_message_for_later_is_sent_at_its_time(
    commands: Commands, installation: Installation, account: Account
) -> None:
    installation.consumer(commands)
    body = await account.group_message_body()
    soon = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    message = (await account.post("/group-messages", **body, scheduled_at=soon))["id"]
    await account.patch(f"/group-messages/{message}", status="queued")
    await eventually(partial(installation.is_completed, message))
    assert installation.deliveries(message) == ["ann", "bob"]
    steps = ["created", "queued", "due", "processing", "completed"]
    assert installation.database.events(message) == steps


async def test_a_scheduled_message_is_sent_at_each_time_and_then_completed(
    commands: Commands, installation: Installation, account: Account
) -> None:
    installation.consumer(commands)
    soon = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    daily = {"is_recurring": True, "recurrence_rule": "FREQ=DAILY;COUNT=2"}
    again = await account.scheduled_message(scheduled_at=soon, **daily)
    once = await account.scheduled_message(scheduled_at=soon)
    for message in (again, once):
        await eventually(lambda: installation.deliveries(message["id"]))  # noqa: B023
        assert installation.deliveries(message["id"]) == ["ann"]
    once = await account.get(f"/scheduled-messages/{once['id']}")
    assert (once["status"], once["next_trigger_at"]) == ("completed", None)
    later = await account.get(f"/scheduled-messages/{again['id']}")
    tomorrow = datetime.fromisoformat(again["next_trigger_at"]) + timedelta(days=1)
    assert later["status"] == "pending"
    assert datetime.fromisoformat(later["next_trigger_at"]) == tomorrow


async def test_without_a_broker_it_waits_for_one_and_can_be_stopped(
    commands: Commands, installation: Installation
) -> None:
    consumer = installation.consumer(commands, RABBITMQ_URL=NO_BROKER)
    await consumer.says("RabbitMQ cannot be used")
    assert await consumer.stop() == 0
    assert "hunter2" not in consumer.err


async def test_without_the_address_of_a_broker_it_does_not_start(commands: Commands) -> None:
    said = await commands.python("-m", "messaging.consumer").error_line(1)
    assert "set RABBITMQ_URL" in said
