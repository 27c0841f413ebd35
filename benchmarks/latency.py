"""How long an event takes from its commit to a consumer, next to publishing right after the commit.

One program commits 50 events a second: in turn through the outbox, with a worker in a process of
its own that NOTIFY wakes, and directly, which is to commit and then publish. A consumer in the
program takes the time, from the call of commit on.
"""

import argparse
import asyncio
import multiprocessing
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.synchronize import Event
from statistics import median

import aio_pika
from aio_pika.abc import AbstractIncomingMessage
from sqlalchemy import Column, MetaData, Table, Uuid, insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from benchmarks.backlog import OrderPlaced
from benchmarks.measure import bench_database, bench_vhost, ratio
from postroom import Outbox, OutboxRelay
from postroom.identity import uuid7
from postroom.publishers.rabbitmq import Binding, Exchange, Queue, RabbitMQPublisher, Topology
from postroom.publishers.rabbitmq.address import Address
from postroom.publishers.rabbitmq.declare import apply

EXCHANGE = QUEUE = "bench"
TOPOLOGY = Topology(exchanges=[Exchange(EXCHANGE)], queues=[Queue(QUEUE, [Binding(EXCHANGE)])])
PER_SECOND = 50
EVENTS = 50
LONGEST = 60.0

metadata = MetaData()
orders = Table("orders", metadata, Column("id", Uuid, primary_key=True))
outbox = Outbox(metadata)


def work(url: str, broker: str, ready: Event, stop: Event) -> None:
    """Be the worker, until told to stop."""

    async def deliver() -> None:
        engine = create_async_engine(url)
        publisher = RabbitMQPublisher(broker, exchange=EXCHANGE)
        async with OutboxRelay(outbox, engine, publisher).running():
            ready.set()
            await asyncio.to_thread(stop.wait)
        await engine.dispose()

    asyncio.run(deliver())


@asynccontextmanager
async def worker(url: str, broker: str) -> AsyncIterator[None]:
    """Have a worker in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    process = context.Process(target=work, args=(url, broker, ready, stop))
    process.start()
    try:
        await asyncio.to_thread(ready.wait)
        yield
    finally:
        stop.set()
        await asyncio.to_thread(process.join)


class Program:
    """Commits events, and takes the time until they arrive."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._committed: dict[str, float] = {}
        self._arrived: dict[str, float] = {}
        self._arrival = asyncio.Event()

    async def connect(self, connection: aio_pika.abc.AbstractConnection) -> None:
        """Consume by one channel, publish by another."""
        queue = await (await connection.channel()).get_queue(QUEUE)
        await queue.consume(self._take)
        self._exchange = await (await connection.channel()).get_exchange(EXCHANGE)

    async def through_outbox(self) -> str:
        """Save an event along with its order."""
        event = OrderPlaced(order_id=str(uuid7()), customer="ann@example.com", total=1)
        async with AsyncSession(self._engine) as session:
            await session.execute(insert(orders).values(id=event.event_id))
            await outbox.dispatcher(session).dispatch([event])
            await session.flush()
            self._committed[str(event.event_id)] = time.perf_counter()
            await session.commit()
        return str(event.event_id)

    async def directly(self) -> str:
        """Save an order, then publish: what is lost when the process dies in between."""
        identity = uuid7()
        async with AsyncSession(self._engine) as session:
            await session.execute(insert(orders).values(id=identity))
            self._committed[str(identity)] = time.perf_counter()
            await session.commit()
        message = aio_pika.Message(
            b'{"customer": "ann@example.com", "total": 1}',
            message_id=str(identity),
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        )
        await self._exchange.publish(message, "OrderPlaced", mandatory=True)
        return str(identity)

    async def latency(self, *, direct: bool) -> float:
        """Commit for a while at a steady pace; give the median of the times."""
        save = self.directly if direct else self.through_outbox
        tasks = []
        for _ in range(EVENTS):
            tasks.append(asyncio.create_task(save()))
            await asyncio.sleep(1 / PER_SECOND)
        names = await asyncio.gather(*tasks)
        async with asyncio.timeout(LONGEST):
            while not self._arrived.keys() >= set(names):
                self._arrival.clear()
                await self._arrival.wait()
        return median(self._arrived[name] - self._committed[name] for name in names)

    async def _take(self, message: AbstractIncomingMessage) -> None:
        self._arrived[str(message.message_id)] = time.perf_counter()
        self._arrival.set()
        await message.ack()


async def compare(url: str, broker: str, turns: int) -> None:
    """Let the two take turns, and print what came of it."""
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    await apply(Address.parse(broker), TOPOLOGY)
    notifier = outbox.notify_workers(engine)
    program, ratios = Program(engine), []
    async with worker(url, broker), await aio_pika.connect(broker) as consumer:
        await program.connect(consumer)
        for turn in range(turns + 1):
            relayed = await program.latency(direct=False)
            direct = await program.latency(direct=True)
            if turn:  # the first one warms up
                ratios.append(relayed / direct)
                print(f"  outbox {relayed * 1000:.1f} ms, direct {direct * 1000:.1f} ms")
    print(f"from commit to consumer, {PER_SECOND} events/s: {ratio(ratios)} of publishing directly")
    notifier.close()
    await engine.dispose()


def main() -> None:
    """Run it as a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=9)
    turns = parser.parse_args().turns
    with bench_database() as url, bench_vhost() as broker:
        asyncio.run(compare(url, broker, turns))


if __name__ == "__main__":
    main()
