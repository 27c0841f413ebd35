"""Who the publisher is to the broker: credentials that rotate, mechanisms, connection names."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from pamqp import commands
from pamqp.header import ProtocolHeader
from sqlalchemy.ext.asyncio import AsyncEngine
from yarl import URL

from postroom import ConfigurationError, HealthStatus, OutageError, OutboxRelay, UntypedEvent
from postroom.publishers.rabbitmq import Credentials, RabbitMQPublisher
from tests.support.broker import Broker
from tests.support.fake_broker import fake_broker
from tests.support.proxy import How, proxy_to
from tests.support.rabbitmq import User, administration, temporary_user
from tests.support.rows import all_delivered, save, until
from tests.support.shop import outbox
from tests.support.waiting import eventually

NOTED = UntypedEvent(event_type="noted", payload={})


class Vault:
    """Holds user and password, and counts who asks."""

    def __init__(self, user: User) -> None:
        self.login = (user.name, user.password)
        self.asked = 0

    def now(self) -> tuple[str, str]:
        self.asked += 1
        return self.login

    async def later(self) -> tuple[str, str]:
        await asyncio.sleep(0)
        return self.now()


@pytest.fixture
def user(rabbitmq_url: str) -> Iterator[User]:
    with temporary_user(rabbitmq_url) as user:
        user.may(write=".*")
        yield user


def without_login(url: str) -> str:
    return str(URL(url).with_user(None))


@pytest.mark.parametrize("method", [Vault.now, Vault.later], ids=["sync", "async"])
async def test_a_password_that_changes_is_asked_for_at_the_next_connection(
    engine: AsyncEngine,
    broker: Broker,
    user: User,
    rabbitmq_url: str,
    method: Callable[[Vault], Any],
) -> None:
    exchange = broker.exchange("events")
    queue = broker.queue("inbox", "#", exchange=exchange)
    vault = Vault(user)
    async with proxy_to(int(URL(rabbitmq_url).port or 5672)) as proxy:
        url = str(URL(without_login(rabbitmq_url)).with_host("127.0.0.1").with_port(proxy.port))
        credentials: Credentials = lambda: method(vault)  # noqa: E731
        publisher = RabbitMQPublisher(url, exchange=exchange, credentials=credentials)
        relay = OutboxRelay(outbox, engine, publisher)
        async with relay.running():
            await save(engine, NOTED)
            await until(engine, all_delivered)
            assert vault.asked == 1
            rotated = f"rotated_{uuid4().hex}"
            vault.login = (user.name, rotated)
            await asyncio.to_thread(user.set_password, rotated)
            proxy.suffer(How.RST)
            await save(engine, UntypedEvent(event_type="noted", payload={}))
            await until(engine, all_delivered)
            await eventually(lambda: relay.health.status is HealthStatus.OK)
    assert vault.asked == 2
    assert broker.waiting(queue) == 2


async def outage_of(publisher: RabbitMQPublisher) -> str:
    """Give why a publisher cannot be opened, in one line."""
    try:
        with pytest.raises(OutageError) as caught:
            await publisher.open()
    finally:
        await publisher.close()
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_credentials_win_over_those_of_the_url(user: User, rabbitmq_url: str) -> None:
    publisher = RabbitMQPublisher(
        rabbitmq_url, exchange="", credentials=lambda: (user.name, "wrong-and-secret")
    )
    text = await outage_of(publisher)
    assert f"`{user.name}`" in text
    assert "wrong-and-secret" not in text


async def test_credentials_that_cannot_be_had_are_an_outage(rabbitmq_url: str) -> None:
    def fail() -> tuple[str, str]:
        raise PermissionError("the vault is sealed")

    text = await outage_of(RabbitMQPublisher(rabbitmq_url, exchange="", credentials=fail))
    assert text.startswith("no credentials for RabbitMQ at ")
    assert text.endswith("PermissionError: the vault is sealed")


async def test_credentials_that_do_not_come_are_an_outage(rabbitmq_url: str) -> None:
    async def hang() -> tuple[str, str]:
        await asyncio.Event().wait()
        raise AssertionError

    publisher = RabbitMQPublisher(
        rabbitmq_url, exchange="", credentials=hang, connect_within=timedelta(seconds=0.1)
    )
    assert "they did not come within 0.1 s" in await outage_of(publisher)


@pytest.mark.parametrize("found", [None, "ann:pw", ("ann",), ("ann", b"s3cr3t-9"), ("a", "b", "c")])
async def test_credentials_of_another_kind_are_a_mistake(rabbitmq_url: str, found: Any) -> None:
    publisher = RabbitMQPublisher(rabbitmq_url, exchange="", credentials=lambda: found)
    with pytest.raises(ConfigurationError, match=r"has to return \(user, password\)") as caught:
        await publisher.open()
    assert "s3cr3t-9" not in str(caught.value)


def test_credentials_and_a_certificate_are_one_login_too_many() -> None:
    url = "amqps://mq?auth_mechanism=external&certfile=/c.pem"
    with pytest.raises(ConfigurationError, match="Leave out `credentials`, or auth_mechanism"):
        RabbitMQPublisher(url, exchange="", credentials=lambda: ("a", "b"))


async def test_a_broker_without_a_mechanism_that_we_speak_is_an_outage_that_names_its_own() -> None:
    start = commands.Connection.Start(0, 9, {"product": "RabbitMQ"}, "AMQPLAIN SCRAM", "en_US")
    async with fake_broker(lambda *_: [], {ProtocolHeader: [start]}) as broker:
        text = await outage_of(RabbitMQPublisher(broker.url, exchange=""))
        await eventually(lambda: broker.clients == 0, "the connection is closed")
    assert "AMQPLAIN, SCRAM" in text


@pytest.mark.extended
async def test_the_broker_lists_the_connection_by_program_host_and_process(
    rabbitmq_url: str,
) -> None:
    publisher = RabbitMQPublisher(f"{rabbitmq_url}?name=shop-outbox", exchange="")
    await publisher.open()
    name = f"shop-outbox {socket.gethostname()}:{os.getpid()}"

    async def is_listed() -> bool:
        return name in await asyncio.to_thread(administration().connection_properties)

    await eventually(is_listed, name)
    await publisher.close()
