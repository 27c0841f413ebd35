"""A durable queue at the far end of a broker: what has arrived there, in that order."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pika  # type: ignore[import-untyped]

from postroom.publishers.rabbitmq import (
    Binding,
    Exchange,
    Queue,
    RabbitMQPublisher,
    Topology,
)
from postroom.publishers.rabbitmq.topology import QueueType
from tests.chaos.ledger import Entry, What
from tests.support.waiting import PATIENCE


class Mailbox:
    """An exchange and a queue of one name, which nobody else knows of."""

    def __init__(self, url: str, *, type: QueueType = "classic") -> None:  # noqa: A002
        self.url = url
        self._type = type
        self.name = f"postroom-chaos-{uuid4().hex[:12]}"

    @property
    def topology(self) -> Topology:
        queue = Queue(self.name, [Binding(self.name)], type=self._type)
        return Topology(exchanges=[Exchange(self.name)], queues=[queue])

    def publisher(
        self, url: str | None = None, *, confirm_within: timedelta = timedelta(seconds=30)
    ) -> RabbitMQPublisher:
        """Give a way out that leads here; by another URL, if told."""
        return RabbitMQPublisher(
            url or self.url,
            exchange=self.name,
            topology=self.topology,
            confirm_within=confirm_within,
        )

    async def declare(self) -> None:
        """Have it there before anybody sends anything."""
        await asyncio.to_thread(self._declare)

    async def count(self) -> int:
        """Count what is there."""
        return await asyncio.to_thread(self._count)

    async def empty(self) -> list[Entry]:
        """Take out all that is there."""
        return await asyncio.to_thread(self._empty)

    async def remove(self) -> None:
        """Leave nothing of it on the broker."""
        await asyncio.to_thread(self._remove)

    def _declare(self) -> None:
        with _connected(self.url) as connection:
            channel = connection.channel()
            channel.exchange_declare(self.name, "topic", durable=True)
            channel.queue_declare(self.name, durable=True)
            channel.queue_bind(self.name, self.name, "#")

    def _count(self) -> int:
        with _connected(self.url) as connection:
            declared = connection.channel().queue_declare(self.name, passive=True)
            return int(declared.method.message_count)

    def _empty(self) -> list[Entry]:
        with _connected(self.url) as connection:
            channel = connection.channel()
            count = channel.queue_declare(self.name, passive=True).method.message_count
            if not count:
                return []
            messages = channel.consume(self.name, auto_ack=True, inactivity_timeout=PATIENCE)
            found = zip(range(count), messages, strict=False)  # in this order: it asks for no more
            return [_entry(properties) for _, (_, properties, _) in found]

    def _remove(self) -> None:
        with _connected(self.url) as connection:
            connection.channel().queue_delete(self.name)
            connection.channel().exchange_delete(self.name)


def records_in(arrived: Sequence[Entry]) -> set[str]:
    return {entry.record for entry in arrived}


def _connected(url: str) -> Any:
    return pika.BlockingConnection(pika.URLParameters(url))


def _entry(properties: Any) -> Entry:
    assert properties is not None, f"nothing more came within {PATIENCE:.0f} s"
    assert properties.delivery_mode == pika.DeliveryMode.Persistent.value
    headers = properties.headers
    return Entry(
        What.DELIVERED,
        properties.message_id,
        headers["aggregate_id"],
        headers["position"],
        "broker",
        datetime.now(UTC),
    )
