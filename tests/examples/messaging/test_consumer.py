"""The consumer as a process, through outages and failures."""

import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from examples.messaging.tests.account import Account
from tests.examples.applications import NO_BROKER, proxied
from tests.examples.messaging.conftest import FACTORY, account_at, start_worker
from tests.examples.messaging.database import Database
from tests.examples.migrated import Template
from tests.examples.server import Server, serve
from tests.support.broker import Broker
from tests.support.command import Command, Commands, commands_in
from tests.support.proxy import How
from tests.support.rabbitmq import temporary_vhost
from tests.support.services import BROKER_SECRET
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended
QUEUE, DEAD = "group_message_processing", "messaging.dlq"
CONSUMES = "consumes group_message_processing, scheduled_message_processing"


@dataclass(frozen=True)
class Installation:
    """An API and a worker, with a database and a vhost that only consumers of this module use."""

    urls: dict[str, str]
    server: Server
    database: Database
    broker: Broker

    def consumer(self, commands: Commands, **environment: str) -> Command:
        """Start a consumer."""
        return commands.python("-m", "messaging.consumer", **{**self.urls, **environment})


@pytest.fixture(scope="module")
def installation(
    template: Template, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    with (
        template.copy() as database_url,
        temporary_vhost() as rabbitmq_url,
        commands_in(tmp_path_factory.mktemp("consumer"), BROKER_SECRET) as commands,
        Database(database_url) as database,
    ):
        urls = {"DATABASE_URL": database_url, "RABBITMQ_URL": rabbitmq_url}
        start_worker(commands, database_url, rabbitmq_url)
        broker = Broker(rabbitmq_url)
        yield Installation(urls, serve(commands, FACTORY, **urls), database, broker)
        broker.close()


@pytest.fixture
async def account(installation: Installation) -> AsyncIterator[Account]:
    async with account_at(installation.server) as account:
        yield account


@pytest.fixture
async def consumer(commands: Commands, installation: Installation) -> Command:
    """A consumer that has begun."""
    consumer = installation.consumer(commands, CONSUMER_MAX_ATTEMPTS="2")
    await consumer.says(CONSUMES)
    return consumer


async def test_what_fails_again_and_again_is_a_dead_letter_that_can_be_sent_back(
    consumer: Command, installation: Installation, account: Account
) -> None:
    database, broker = installation.database, installation.broker
    with database.refusing("deliveries", f"NEW.account_id = '{account.id}'"):
        message = (await account.group_message("queued"))["id"]
        await consumer.says("is rejected after 2 attempts")
    await eventually(lambda: broker.waiting(DEAD) == 1)
    assert database.deliveries(message) == []
    assert database.events(message) == ["created", "queued"]

    [(dead, properties)] = broker.take_raw(DEAD)
    broker.publish("messaging", dead.routing_key, dead.body, properties)
    await eventually(partial(database.is_completed, message))
    assert database.deliveries(message) == ["ann", "bob"]


async def test_what_cannot_be_read_is_a_dead_letter_at_once(
    consumer: Command, installation: Installation
) -> None:
    bodies = [b"no JSON", b"[]", b'{"id": 7}']
    for body in bodies:
        installation.broker.publish("messaging", "group_message.queued", body)
    await eventually(lambda: installation.broker.waiting(DEAD) == len(bodies))
    assert [each.body for each in installation.broker.take(DEAD)] == bodies
    assert "Traceback" not in consumer.err


async def test_sigterm_finishes_what_is_in_flight(
    consumer: Command, commands: Commands, installation: Installation, account: Account
) -> None:
    with installation.database.locking("deliveries"):
        message = (await account.group_message("queued"))["id"]
        await eventually(lambda: installation.database.held_up("deliveries"))
        consumer.tell(signal.SIGTERM)
    assert await consumer.code() == 0
    assert consumer.err.endswith("has stopped\n")
    assert "WARNING" not in consumer.err
    assert installation.database.deliveries(message) == ["ann", "bob"]
    again = installation.consumer(commands)
    await eventually(lambda: installation.broker.waiting(QUEUE) == 0)
    assert await again.stop() == 0
    assert "was processed before" not in again.err  # it was acknowledged


async def test_it_connects_again_when_the_broker_is_back(
    commands: Commands, installation: Installation, account: Account
) -> None:
    async with proxied(installation.urls["RABBITMQ_URL"]) as (proxy, url):
        consumer = installation.consumer(commands, RABBITMQ_URL=url)
        await consumer.says(CONSUMES)
        proxy.suffer(How.RST)
        await consumer.says("is lost")
        message = (await account.group_message("queued"))["id"]
        await eventually(partial(installation.database.is_completed, message))
        assert await consumer.stop() == 0
    assert "Traceback" not in consumer.err


async def test_while_the_database_is_away_a_message_waits_and_counts_no_attempt(
    commands: Commands, installation: Installation, account: Account
) -> None:
    async with proxied(installation.urls["DATABASE_URL"]) as (proxy, url):
        consumer = installation.consumer(commands, DATABASE_URL=url, CONSUMER_MAX_ATTEMPTS="1")
        await consumer.says(CONSUMES)
        proxy.go_away(How.RST)
        message = (await account.group_message("queued"))["id"]
        await consumer.says("the database is away")
        proxy.come_back()
        await eventually(partial(installation.database.is_completed, message))
        assert await consumer.stop() == 0
    assert installation.broker.waiting(DEAD) == 0


async def test_it_consumes_again_when_a_deleted_queue_is_declared_again(
    consumer: Command, installation: Installation, account: Account
) -> None:
    installation.broker.delete_queue(QUEUE)
    await consumer.says("a queue was deleted")
    message = (await account.group_message("queued"))["id"]  # the worker declares it
    await eventually(partial(installation.database.is_completed, message))


async def test_without_a_broker_it_waits_for_one_and_can_be_stopped(
    commands: Commands, installation: Installation
) -> None:
    consumer = installation.consumer(commands, RABBITMQ_URL=NO_BROKER)
    await consumer.says("RabbitMQ cannot be used")
    assert await consumer.stop() == 0
