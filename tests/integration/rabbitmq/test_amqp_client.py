"""The AMQP client against RabbitMQ, without anything else of postroom."""

import gc
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from pamqp import commands, header

from postroom.publishers.rabbitmq.amqp.cluster import Cluster
from postroom.publishers.rabbitmq.amqp.confirms import ConfirmChannel
from postroom.publishers.rabbitmq.amqp.connection import Connection
from postroom.publishers.rabbitmq.amqp.errors import (
    ClosedError,
    EncodeError,
    ReplyCode,
)
from postroom.publishers.rabbitmq.amqp.inquiry import Inquiry
from postroom.publishers.rabbitmq.amqp.outgoing import Answer, Outgoing
from tests.support.broker import Broker

WITHIN = 10


@pytest.fixture
async def connection(rabbitmq_url: str) -> AsyncIterator[Connection]:
    connection = await Cluster(rabbitmq_url).connect()
    yield connection
    await connection.close()


def message(exchange: str, routing_key: str, body: bytes = b"{}") -> Outgoing:
    """Make a message that has an id, and no other property."""
    name = uuid4()
    properties = commands.Basic.Properties(message_id=str(name))
    content = header.ContentHeader(body_size=len(body), properties=properties)
    return Outgoing(name, (content.marshal(), body), (exchange, routing_key))


async def test_it_names_the_product_and_version_of_the_broker(connection: Connection) -> None:
    assert connection.server.startswith("RabbitMQ ")


async def test_what_it_declares_gets_what_it_publishes(
    connection: Connection, broker: Broker
) -> None:
    exchange, queue = "events", "inbox"
    async with Inquiry(connection) as inquiry:
        assert not await inquiry.exists(exchange)
        await inquiry.declare_exchange(exchange, "topic", durable=True, arguments={})
        await inquiry.declare_queue(queue, durable=True, arguments={"x-max-length": 9})
        await inquiry.bind(queue, exchange, "order.*", {})
        assert await inquiry.exists(exchange)
    messages = [message(exchange, "order.placed", b"x" * size) for size in (0, 1, 300_000)]
    channel = await ConfirmChannel(connection).open()
    await channel.deliver(messages, within=WITHIN)
    assert [each.answer for each in messages] == [Answer.ACK] * 3
    assert [len(each.body) for each in broker.take(queue)] == [0, 1, 300_000]


async def test_each_message_has_the_brokers_answer_to_it(
    connection: Connection, broker: Broker
) -> None:
    exchange = broker.exchange("events")
    broker.queue("inbox", "open", exchange=exchange)
    broker.queue("full", "full", exchange=exchange, max_length=0, overflow="reject-publish")
    places = [(exchange, "open"), (exchange, "nowhere"), (exchange, "full"), (exchange, "k" * 256)]
    messages = [message(*place) for place in places]
    channel = await ConfirmChannel(connection).open()
    await channel.deliver(messages, within=WITHIN)
    assert [each.answer for each in messages] == [
        Answer.ACK,
        Answer.RETURNED,
        Answer.NACK,
        Answer.UNFIT,
    ]
    assert messages[1].returned == "312 NO_ROUTE"


async def test_a_missing_exchange_closes_the_channel_and_not_the_connection(
    connection: Connection,
) -> None:
    channel = await ConfirmChannel(connection).open()
    with pytest.raises(ClosedError) as caught:
        await channel.deliver([message("events", "k")], within=WITHIN)
    assert (caught.value.code, caught.value.connection) == (ReplyCode.NOT_FOUND, False)
    assert connection.lost is None
    assert (await ConfirmChannel(connection).open()).closed is None


async def test_what_amqp_cannot_hold_is_an_error_that_leaves_nothing_behind(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    async with Inquiry(connection) as inquiry:
        with pytest.raises(EncodeError):
            await inquiry.declare_exchange("e" * 200, "topic", durable=True, arguments={})
        with pytest.raises(EncodeError):
            await inquiry.declare_queue("q", durable=True, arguments={"x": object()})
    gc.collect()
    assert caplog.messages == []  # asyncio logs an error that nobody has fetched
