"""From a request through RabbitMQ to the effect: API, relay and consumer, in one process."""

import asyncio
from collections.abc import AsyncIterator

import aio_pika
import pytest
from account import Account
from postroom import OutboxRelay, UntypedEvent
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine
from waiting import eventually

from messaging.broker import PROCESSING, make_publisher
from messaging.consumer import Consumer, host_urls
from messaging.models import outbox
from messaging.processing import Processor
from messaging.settings import Settings
from messaging.telemetry import Telemetry
from messaging.worker import make_relay


@pytest.fixture
async def rabbitmq(settings: Settings) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    """A channel; at the end, what the test has declared is deleted."""
    assert settings.rabbitmq_url is not None
    exchange, prefix = settings.rabbitmq_exchange, settings.rabbitmq_queue_prefix
    async with await aio_pika.connect(settings.rabbitmq_url) as connection:
        channel = await connection.channel()
        yield channel
        for name in (*(f"{prefix}{each}" for each in PROCESSING), f"{exchange}.dlq"):
            await channel.queue_delete(name)
        for name in (exchange, f"{exchange}.dlx"):
            await channel.exchange_delete(name)


@pytest.fixture
def relay(settings: Settings, engine: AsyncEngine) -> OutboxRelay:
    return make_relay(settings, engine, make_publisher(settings))


@pytest.fixture
async def consumer(
    settings: Settings,
    relay: OutboxRelay,
    processor: Processor,
    rabbitmq: aio_pika.abc.AbstractChannel,
) -> AsyncIterator[Consumer]:
    """A consumer that runs, and a relay that delivers to it."""
    assert settings.rabbitmq_url is not None
    queues = [f"{settings.rabbitmq_queue_prefix}{name}" for name in PROCESSING]
    consumer = Consumer(
        settings.rabbitmq_url, queues, processor, Telemetry(settings), prefetch=5, max_attempts=1
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(relay.run())
        group.create_task(consumer.run())
        yield consumer
        consumer.stop()
        await relay.stop()


async def test_a_queued_message_is_sent_once(account: Account, consumer: Consumer) -> None:
    message = await account.group_message("queued")

    async def is_completed() -> bool:
        return await account.status(message) == "completed"

    await eventually(is_completed, "the message is completed")
    assert await account.recipients(message) == ["ann", "bob"]


async def test_without_an_audit_queue_no_event_is_stuck(
    account: Account,
    relay: OutboxRelay,
    engine: AsyncEngine,
    rabbitmq: aio_pika.abc.AbstractChannel,
) -> None:
    event = UntypedEvent(event_type="channel.created", payload={})  # no queue takes it
    async with engine.begin() as connection:
        await outbox.save(connection, [event])
    message = await account.group_message()
    await relay.run_once()
    record = outbox.tables.records.c
    ours = (record.id == event.event_id) | (record.aggregate_id == message["id"])
    async with engine.connect() as connection:
        statuses = await connection.scalars(select(record.status).where(ours))
        assert statuses.all() == ["published", "published"]


def test_each_host_of_a_cluster_has_a_url() -> None:
    assert host_urls("amqp://app:a%40b@mq1,mq2:5673/shop") == [
        "amqp://app:a%40b@mq1/shop",
        "amqp://app:a%40b@mq2:5673/shop",
    ]
