"""Who the events are for: a queue of RabbitMQ and its only consumer."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

from benchmarks.contenders.control import EXCHANGE, QUEUE

LIMIT = 1_000_000
"""Bytes that a queue with a limit takes."""
FILLER = LIMIT - 50


class Consumer:
    """Declares the queue, consumes from it, and notes what arrives when."""

    def __init__(self, channel: AbstractChannel, queue: str) -> None:
        self.taken: list[tuple[str, int]] = []
        """The key and the number of each event, in the order of arrival."""
        self.last_at = 0.0
        self._channel = channel
        self._name = queue
        self._arrival = asyncio.Event()
        self._stop: Callable[[], Awaitable[Any]] | None = None

    async def bind(self, *, full: bool = False) -> AbstractQueue:
        """Declare and bind the queue; a full one refuses every message, until it is purged."""
        limits: dict[str, Any] = {"x-max-length-bytes": LIMIT, "x-overflow": "reject-publish"}
        arguments = limits if full else None
        queue = await self._channel.declare_queue(
            self._name or QUEUE, durable=True, arguments=arguments
        )
        if not self._name:  # others declare and bind their queue themselves
            await queue.bind(EXCHANGE, "#")
        if full:
            filler = aio_pika.Message(b"." * FILLER)
            await self._channel.default_exchange.publish(filler, queue.name)
        return queue

    async def consume(self, queue: AbstractQueue) -> None:
        """Take what is there, and what comes."""
        tag = await queue.consume(self._note, no_ack=True)
        self._stop = partial(queue.cancel, tag)

    async def stop(self) -> None:
        """Consume no more."""
        if self._stop is not None:
            await self._stop()

    async def _note(self, message: AbstractIncomingMessage) -> None:
        body = json.loads(message.body)
        payload = body[0][0] if isinstance(body, list) else body  # Celery: args, kwargs, embed
        self.taken.append((payload["order_id"], payload["total"]))
        self.last_at = time.monotonic()
        self._arrival.set()

    async def wait_for(self, count: int, within: float) -> None:
        """Wait until so many different events have arrived, or until the time is over."""
        try:
            async with asyncio.timeout(within):
                while len(set(self.taken)) < count:
                    self._arrival.clear()
                    await self._arrival.wait()
        except TimeoutError:
            pass


@asynccontextmanager
async def consumer(broker: str, queue: str) -> AsyncIterator[Consumer]:
    """Declare the exchange and connect; delete exchange and queue at the end."""
    async with await aio_pika.connect(broker) as connection:
        channel = await connection.channel()
        await channel.declare_exchange(EXCHANGE, aio_pika.ExchangeType.TOPIC, durable=True)
        made = Consumer(channel, queue)
        yield made
        await made.stop()
        for name in {QUEUE, queue} - {""}:
            await channel.queue_delete(name)
        await channel.exchange_delete(EXCHANGE)
