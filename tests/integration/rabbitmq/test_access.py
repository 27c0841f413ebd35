"""A broker that refuses, or is none: what the publisher makes of it, and says about it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine
from yarl import URL

from postroom import Health, HealthStatus, OutboxRelay, UntypedEvent
from postroom.errors import OutageError
from postroom.publishers.rabbitmq import RabbitMQPublisher
from postroom.testing import FakeClock
from tests.support.broker import Broker
from tests.support.listening import serving
from tests.support.rabbitmq import User, temporary_user
from tests.support.rows import all_delivered_by, rows, save, until
from tests.support.services import BROKER_SECRET
from tests.support.shop import outbox
from tests.support.waiting import eventually

SECRET = "hunter2-hunter2"


@pytest.fixture
def user(rabbitmq_url: str) -> Iterator[User]:
    with temporary_user(rabbitmq_url) as user:
        yield user


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def noted(name: str, key: str = "a") -> UntypedEvent:
    return UntypedEvent(event_type=name, aggregate_type="note", aggregate_id=key, payload={})


async def refusal(publisher: RabbitMQPublisher, *secrets: str, silent: bool = False) -> str:
    """Give what the publisher says when it is opened: in one line, with no secret.

    It does not take a time-out to find out, unless the other end is silent.
    """
    with pytest.raises(OutageError) as caught:
        await publisher.open()
    await publisher.close()
    text = str(caught.value)
    assert "\n" not in text
    assert ("did not answer within" in text) == silent
    assert str(publisher.cluster) in text
    for secret in secrets:
        assert secret not in text
    return text


# -- nobody who could be asked


@pytest.mark.requirement("E10")
async def test_a_wrong_password_is_an_outage_that_names_the_user(rabbitmq_url: str) -> None:
    url = str(URL(rabbitmq_url).with_password(SECRET))
    text = await refusal(RabbitMQPublisher(url, exchange="amq.topic"), SECRET)
    assert f"refused the login of `{URL(url).user}`" in text
    assert "Check the user, the password and the vhost" in text


async def test_an_unknown_vhost_is_an_outage_that_names_it(rabbitmq_url: str) -> None:
    url = str(URL(rabbitmq_url).with_path("/no-such-vhost"))
    text = await refusal(RabbitMQPublisher(url, exchange="amq.topic"), BROKER_SECRET)
    assert "the vhost `no-such-vhost`" in text
    assert "Check that it exists" in text


async def test_a_vhost_that_is_not_the_users_is_an_outage(user: User) -> None:
    url = str(URL(user.url).with_path("/%2F", encoded=True))  # of others
    text = await refusal(RabbitMQPublisher(url, exchange="amq.topic"), user.password)
    assert f"`{user.name}`" in text
    assert "`/`" in text


async def test_nobody_who_listens_is_an_outage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    publisher = RabbitMQPublisher(f"amqp://me:{SECRET}@127.0.0.1:{port}/v", exchange="e")
    text = await refusal(publisher, SECRET)
    assert text.startswith(f"cannot reach RabbitMQ at 127.0.0.1:{port}/v: ")


async def test_a_host_that_nobody_knows_is_an_outage() -> None:
    publisher = RabbitMQPublisher(f"amqp://me:{SECRET}@no.such.host.invalid/v", exchange="e")
    await refusal(publisher, SECRET)


@asynccontextmanager
async def stranger(greeting: bytes, *, stays: bool = True) -> AsyncIterator[str]:
    """Give the URL of a server that is no broker: it says something, and listens, or hangs up."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        while stays and await reader.read(1024):
            pass

    async with serving(meet) as port:
        yield f"amqp://me:{SECRET}@127.0.0.1:{port}/v"


@pytest.mark.parametrize(
    "greeting",
    [
        b"220 mail.example ESMTP ready\r\n",
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"AMQP\x00\x00\x09\x01",
        b"AMQP\x03\x01\x00\x00",
        bytes(range(256)),
        b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x0a\xce",  # Connection.Start, cut short
        b"\x01\x00\x00\x00\x00\x00\x04\x7f\x7f\x7f\x7f\xce",  # a method that there is not
        b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x0a\x00",  # a frame without its end
        b"\x01\x00\x00\x00\x00\x00\x00\xce",  # a method that is none
        b"\x09\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\xce",  # a kind of frame that there is not
        b"\x03\x00\x00\x00\x00\x00\x04body\xce",  # a body of nothing
        b"\x08\x00\x00\x00\x00\x00\x00\xce\x02\x00\x00\x00\x00\x00\x01\x00\xce",
    ],
)
async def test_a_port_that_speaks_no_amqp_is_an_outage(greeting: bytes) -> None:
    async with stranger(greeting) as url:
        text = await refusal(RabbitMQPublisher(url, exchange="e"), SECRET)
    assert text.startswith("cannot use RabbitMQ at 127.0.0.1:")


@pytest.mark.parametrize("greeting", [b"", b"hi", b"\x01\x00\x00\x00\x00\x00\x09\x00\x0a"])
async def test_a_port_that_hangs_up_is_an_outage(greeting: bytes) -> None:
    async with stranger(greeting, stays=False) as url:
        await refusal(RabbitMQPublisher(url, exchange="e"), SECRET)


@pytest.mark.parametrize("greeting", [b"", b"hi", b"\x08\x00\x00\x00\x00\x00\x00\xce"])
async def test_a_port_that_says_nothing_more_is_an_outage_before_long(greeting: bytes) -> None:
    async with stranger(greeting) as url:
        publisher = RabbitMQPublisher(url, exchange="e", connect_within=timedelta(seconds=0.2))
        await refusal(publisher, SECRET, silent=True)


@pytest.mark.requirement("E10")
async def test_a_relay_waits_for_its_broker_and_its_health_shows_no_password(
    engine: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    async with stranger(b"220 mail.example ESMTP ready\r\n") as url:
        relay = OutboxRelay(outbox, engine, RabbitMQPublisher(url, exchange="e"))
        await save(engine, noted("n"))
        async with relay.running():
            await eventually(lambda: relay.health.status == HealthStatus.DEGRADED)
            reason = str(relay.health.reason)
    assert "127.0.0.1" in reason
    assert [each.retry_count for each in await rows(engine)] == [0]
    assert SECRET not in reason + caplog.text


# -- what a user may not


async def test_an_exchange_that_the_user_may_not_write_to_is_an_outage_until_it_may(
    engine: AsyncEngine, broker: Broker, user: User, clock: FakeClock
) -> None:
    exchange = broker.exchange("events")
    queue = broker.queue("inbox", "#", exchange=exchange)
    user.may(write="^other$")
    relay = OutboxRelay(outbox, engine, RabbitMQPublisher(user.url, exchange=exchange), clock=clock)
    await save(engine, *(noted("n", key=str(n)) for n in range(20)))
    async with relay.running():
        await eventually(lambda: relay.health.status == HealthStatus.DEGRADED)
        assert f"access to exchange '{exchange}'" in str(relay.health.reason)
        assert {(each.retry_count, each.status) for each in await rows(engine)} == {(0, "pending")}
        user.may(write=f"^{exchange}$")
        await until(engine, all_delivered_by(clock))
        await eventually(lambda: relay.health == Health(status=HealthStatus.OK))
    assert broker.waiting(queue) == 20
