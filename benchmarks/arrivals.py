"""What arrives at RabbitMQ, seen from outside: the length of a queue, then its messages."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

from benchmarks.contenders.control import EXCHANGE, QUEUE

LOOK_EVERY = 0.02
STALLED_AFTER = 60.0


class LostError(Exception):
    """Raised when messages are missing at the end of a turn, or out of order within a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Seconds of CPU time so far, of all workers, of RabbitMQ and of PostgreSQL."""

    workers: float
    rabbitmq: float
    postgresql: float


@dataclass(kw_only=True)
class Arrivals:
    """When how many messages had arrived; CPU time at the first and at the last of them."""

    seen: list[tuple[float, int]] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)

    @property
    def records(self) -> int:
        """The messages that arrived after the first look that found any."""
        return max(self.seen[-1][1] - self.seen[0][1], 1)

    @property
    def rate(self) -> float:
        """Messages per second, from the first look that found any to the last message."""
        return self.records / max(self.seen[-1][0] - self.seen[0][0], LOOK_EVERY)

    def rate_since(self, start: float) -> float:
        """Messages per second, from a moment to the last message."""
        return self.seen[-1][1] / (self.seen[-1][0] - start)

    def cpu_per_record(self, of: str) -> float:
        """Microseconds of CPU time per message: of "workers", "rabbitmq" or "postgresql"."""
        first, last = self.usages
        used: float = getattr(last, of) - getattr(first, of)
        return 1e6 * used / self.records

    def last_tenth_to_first(self) -> float:
        """The rate of the last tenth of the messages, as a ratio to that of the first tenth."""
        (start, first), (end, last) = self.seen[0], self.seen[-1]
        tenth = (last - first) / 10
        beginning = self._moment(first + tenth) - start
        return beginning / max(end - self._moment(last - tenth), 1e-9)

    def _moment(self, count: float) -> float:
        """The moment at which so many had arrived, between two looks."""
        before = self.seen[0]
        for at, seen in self.seen:
            if seen >= count:
                share = (count - before[1]) / max(seen - before[1], 1)
                return before[0] + share * (at - before[0])
            before = at, seen
        return self.seen[-1][0]


class BenchQueue:
    """The durable queue that all contenders deliver to."""

    def __init__(self, channel: AbstractChannel, queue: AbstractQueue) -> None:
        self._channel = channel
        self._queue = queue

    async def count(self) -> int:
        queue = await self._channel.declare_queue(QUEUE, passive=True)
        return queue.declaration_result.message_count or 0

    async def purge(self) -> int:
        return (await self._queue.purge()).message_count or 0

    async def watch(
        self, expected: int, usage: Callable[[], Usage], *, at_most: float = inf
    ) -> Arrivals:
        """Look at the length of the queue until so many messages have arrived.

        It is emptied when there are more than `at_most`, as consumers would do.
        """
        arrivals, count, gone, moved = Arrivals(), 0, 0, time.perf_counter()
        empty_at = moved
        while count < expected:
            await asyncio.sleep(LOOK_EVERY)
            now, before, count = time.perf_counter(), count, gone + await self.count()
            if count - gone > at_most:
                gone += await self.purge()
            if not count:
                empty_at = now
            elif not arrivals.usages:
                arrivals.usages.append(usage())
            if count > before:
                arrivals.seen.append((now, count))
                moved = now
            elif now - moved > STALLED_AFTER:
                raise LostError(f"{count} of {expected} messages arrived, and no more")
        arrivals.usages.append(usage())
        if len(arrivals.seen) == 1:  # all of them arrived between two looks
            arrivals.seen.insert(0, (empty_at, 0))
        return arrivals

    async def take(self, expected: int) -> list[tuple[str, int]]:
        """Consume all messages; give the key and the number of each, in the order of arrival."""
        taken: list[tuple[str, int]] = []
        complete = asyncio.Event()

        async def note(message: AbstractIncomingMessage) -> None:
            payload = json.loads(message.body)
            taken.append((payload["order_id"], payload["total"]))
            if len(taken) >= expected:
                complete.set()

        tag = await self._queue.consume(note, no_ack=True)
        async with asyncio.timeout(STALLED_AFTER):
            await complete.wait()
        await self._queue.cancel(tag)
        return taken


def check_complete(taken: Sequence[tuple[str, int]], expected: int) -> None:
    """Raise LostError unless the events numbered from 0 are all there."""
    missing = set(range(expected)) - {number for _, number in taken}
    if missing:
        raise LostError(f"{len(missing)} of {expected} events are missing, as {min(missing)}")


def check_order(taken: Sequence[tuple[str, int]]) -> None:
    """Raise LostError unless the first deliveries of each key are in the order of the events."""
    latest: dict[str, int] = {}
    seen: set[int] = set()
    for key, number in taken:
        if number not in seen and number < latest.get(key, -1):
            raise LostError(f"event {number} of {key} arrived after event {latest[key]}")
        seen.add(number)
        latest[key] = max(number, latest.get(key, -1))


@asynccontextmanager
async def bench_queue(broker: str) -> AsyncIterator[BenchQueue]:
    """Declare the exchange and the queue, durable both, and connect to them."""
    async with await aio_pika.connect(broker) as connection:
        channel = await connection.channel()
        kind = aio_pika.ExchangeType.TOPIC
        exchange = await channel.declare_exchange(EXCHANGE, kind, durable=True)
        queue = await channel.declare_queue(QUEUE, durable=True)
        await queue.bind(exchange, "#")
        yield BenchQueue(channel, queue)
