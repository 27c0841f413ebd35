"""The other end of RabbitMQ, by a client that others wrote: queues, consumers, faults."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pika  # type: ignore[import-untyped]

from tests.support.waiting import PATIENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message as a consumer gets it."""

    exchange: str
    routing_key: str
    body: bytes
    content_type: str | None
    delivery_mode: int | None
    message_id: str | None
    type: str | None
    timestamp: int | None
    correlation_id: str | None
    headers: dict[str, Any]

    @classmethod
    def of(cls, method: Any, properties: Any, body: bytes) -> "Received":
        return cls(
            exchange=method.exchange,
            routing_key=method.routing_key,
            body=body,
            content_type=properties.content_type,
            delivery_mode=properties.delivery_mode,
            message_id=properties.message_id,
            type=properties.type,
            timestamp=properties.timestamp,
            correlation_id=properties.correlation_id,
            headers=properties.headers or {},
        )


class Broker:
    """Declares, binds, breaks and looks. What is declared goes with the test's vhost."""

    def __init__(self, url: str) -> None:
        self._parameters = pika.URLParameters(url)
        self._parameters.heartbeat = 0  # nobody answers between two calls
        self._connection = pika.BlockingConnection(self._parameters)
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()  # what is published can be taken on any connection

    def close(self) -> None:
        self._connection.close()

    def exchange(self, name: str, kind: str = "topic") -> str:
        self._channel.exchange_declare(name, kind, durable=True)
        return name

    def queue(self, name: str, *keys: str, exchange: str = "", **arguments: Any) -> str:
        """Declare a queue that takes what comes to an exchange by some routing keys."""
        told = {f"x-{each.replace('_', '-')}": value for each, value in arguments.items()}
        self._channel.queue_declare(name, durable=True, arguments=told)
        for key in keys:
            self.bind(name, exchange, key)
        return name

    def bind(self, queue: str, exchange: str, key: str) -> None:
        self._channel.queue_bind(queue, exchange, key)

    def unbind(self, queue: str, exchange: str, key: str) -> None:
        self._channel.queue_unbind(queue, exchange, key)

    def delete_exchange(self, name: str) -> None:
        self._channel.exchange_delete(name)

    def delete_queue(self, name: str) -> None:
        self._channel.queue_delete(name)

    def purge(self, queue: str) -> None:
        self._channel.queue_purge(queue)

    def publish(self, exchange: str, key: str, body: bytes = b"{}", properties: Any = None) -> None:
        self._channel.basic_publish(exchange, key, body, properties)

    def reject(self, queue: str) -> None:
        """Take a message as a consumer that wants to see it no more."""
        method, _, _ = self._channel.basic_get(queue)
        self._channel.basic_reject(method.delivery_tag, requeue=False)

    def waiting(self, queue: str) -> int:
        """Count what is in a queue."""
        return int(self._channel.queue_declare(queue, passive=True).method.message_count)

    def take(self, queue: str) -> list[Received]:
        """Take all that is in a queue just now."""
        return [message for message, _ in self.take_raw(queue)]

    def take_raw(self, queue: str) -> list[tuple[Received, Any]]:
        """Take all that is in a queue just now, each with all of its properties."""
        taken = []
        while (found := self._channel.basic_get(queue, auto_ack=True))[0] is not None:
            taken.append((Received.of(*found), found[1]))
        return taken

    def exists(self, *, exchange: str | None = None, queue: str | None = None) -> bool:
        """Tell whether there is one of that name."""
        channel = self._connection.channel()
        try:
            if exchange is not None:
                channel.exchange_declare(exchange, passive=True)
            if queue is not None:
                channel.queue_declare(queue, passive=True)
        except pika.exceptions.ChannelClosedByBroker:
            return False
        channel.close()
        return True

    async def consume(self, queue: str, count: int, *, prefetch: int = 100) -> list[Received]:
        """Consume so many messages as an application would, in a thread of its own."""
        return await asyncio.to_thread(self._consume, queue, count, prefetch)

    def _consume(self, queue: str, count: int, prefetch: int) -> list[Received]:
        connection = pika.BlockingConnection(self._parameters)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=min(count, prefetch))
        got: list[Received] = []
        try:
            for method, properties, body in channel.consume(queue, inactivity_timeout=PATIENCE):
                assert method is not None, f"{len(got)} of {count} messages came to {queue}"
                got.append(Received.of(method, properties, body))
                channel.basic_ack(method.delivery_tag)
                if len(got) == count:
                    break
        finally:
            connection.close()
        return got
