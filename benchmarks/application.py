"""A program that commits events at a steady pace, and takes the time until they arrive."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aio_pika
from aio_pika.abc import AbstractExchange, AbstractIncomingMessage
from sqlalchemy import Column, Integer, MetaData, Table, insert, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from benchmarks.backlog import OrderPlaced
from benchmarks.contender import FASTSTREAM_OUTBOX, POSTROOM, TXOUTBOX, Contender, outbox
from benchmarks.contenders.aio_pika_alone import message
from benchmarks.contenders.control import EXCHANGE, QUEUE, ROUTING_KEY
from benchmarks.contenders.messages import letter
from benchmarks.turns import KEYS, Bench

DIRECT = "direct"
PER_SECOND = 50
LONGEST = 60.0
PEERS = {each.name: each for each in (TXOUTBOX, FASTSTREAM_OUTBOX)}

orders = Table("orders", MetaData(), Column("number", Integer, primary_key=True))


class Application:
    """Commits an order with an event, in the way of each contender, and consumes the events."""

    def __init__(self, engine: AsyncEngine, exchange: AbstractExchange) -> None:
        self._engine = engine
        self._exchange = exchange
        self._number = 0
        self._committed: dict[int, float] = {}
        self._arrived: dict[int, float] = {}
        self._arrival = asyncio.Event()

    async def commit_events(self, name: str, count: int) -> tuple[list[float], float]:
        """Commit so many events; give the seconds until each arrived, and those of the pace."""
        numbers = range(self._number, self._number + count)
        self._number += count
        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for place, number in enumerate(numbers):
                await asyncio.sleep(start + place / PER_SECOND - time.perf_counter())
                group.create_task(self._commit(name, number))
        async with asyncio.timeout(LONGEST):
            await self._until(numbers)
        latencies = [self._arrived[each] - self._committed[each] for each in numbers]
        return latencies, time.perf_counter() - start

    async def _commit(self, name: str, number: int) -> None:
        async with AsyncSession(self._engine) as session:
            await session.execute(insert(orders).values(number=number))
            if name == POSTROOM.name:
                order = OrderPlaced(
                    order_id=f"order-{number % KEYS}", customer="ann@example.com", total=number
                )
                await outbox.dispatcher(session).dispatch([order])
                await session.flush()
            elif name in PEERS:
                await self._insert(session, PEERS[name], number)
            self._committed[number] = time.perf_counter()
            await session.commit()
        if name == DIRECT:
            sent = message(letter(number, f"order-{number % KEYS}"))
            await self._exchange.publish(sent, ROUTING_KEY, mandatory=True)

    async def _insert(self, session: AsyncSession, peer: Contender, number: int) -> None:
        """Insert an event into a peer's table; it notifies in the transaction."""
        await peer.fill(await session.connection(), 1, KEYS, first=number)
        if peer.notify:
            await session.execute(text(peer.notify))

    async def take(self, received: AbstractIncomingMessage) -> None:
        """Note when an event arrived first."""
        self._arrived.setdefault(json.loads(received.body)["total"], time.perf_counter())
        self._arrival.set()

    async def _until(self, numbers: range) -> None:
        while not self._arrived.keys() >= set(numbers):
            self._arrival.clear()
            await self._arrival.wait()


@asynccontextmanager
async def application(bench: Bench) -> AsyncIterator[Application]:
    """Have the program run: it consumes by one connection, and publishes by another."""
    async with bench.engine.begin() as connection:
        await connection.run_sync(orders.metadata.create_all)
    notifier = outbox.notify_workers(bench.engine)
    broker = bench.services.broker
    async with await aio_pika.connect(broker) as consumer, await aio_pika.connect(broker) as sender:
        channel = await sender.channel(publisher_confirms=True)
        program = Application(bench.engine, await channel.get_exchange(EXCHANGE))
        queue = await (await consumer.channel()).get_queue(QUEUE)
        await queue.consume(program.take, no_ack=True)
        yield program
    notifier.close()
