"""How fast a relay drains an outbox to RabbitMQ, next to what RabbitMQ takes at all.

The floor is raw: frames that were encoded before the clock starts, written in pieces, as many on
their way at once as the relay may have. aio-pika, in batches, is there for orientation: it has its
messages in memory, keeps no order and writes nothing down. The sides take turns, in random order.
All go to one durable queue, which is emptied in between, and are done when the broker has confirmed
the last message. The relay waits for work when its turn comes: starting up is not measured.
"""

import argparse
import asyncio
import gc
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from typing import Any

import aio_pika
from aio_pika.abc import AbstractExchange
from pamqp import commands
from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.backlog import add_records, key_names, vacuum
from benchmarks.measure import bench_database, bench_vhost, ratio
from postroom import ClaimedRecord, Outbox, OutboxRelay, Outcome
from postroom.errors import Outage
from postroom.identity import uuid7
from postroom.publishers.rabbitmq import Binding, Exchange, Queue, RabbitMQPublisher, Topology
from postroom.publishers.rabbitmq.address import Address
from postroom.publishers.rabbitmq.channel import Channel
from postroom.publishers.rabbitmq.connection import Connection
from postroom.publishers.rabbitmq.frames import message, publish
from postroom.publishers.rabbitmq.message import plain_message

NAME = "bench"
TOPOLOGY = Topology(exchanges=[Exchange(NAME)], queues=[Queue(NAME, [Binding(NAME)])])
KEYS = 1000
PIECE = 250
AHEAD = RabbitMQPublisher.max_in_flight

metadata = MetaData()
outbox = Outbox(metadata)


@dataclass(kw_only=True)
class Side:
    """One way to have messages confirmed: `prepare` is not measured."""

    name: str
    prepare: Callable[[], Awaitable[None]]
    deliver: Callable[[], Awaitable[None]]
    records: int
    times: list[float] = field(default_factory=list)
    cpu: float = 0.0

    async def take_turn(self) -> None:
        """Deliver all records once."""
        await self.prepare()
        start, cpu = time.perf_counter(), time.process_time()
        await self.deliver()
        self.times.append(time.perf_counter() - start)
        self.cpu += time.process_time() - cpu

    def __str__(self) -> str:
        rate, cpu = self.records / median(self.times), 1e6 * self.cpu / len(self.times)
        return (
            f"{self.name + ':':<10}{rate:,.0f} records/s,"
            f" {cpu / self.records:.1f} µs of this process's CPU time per record"
        )


def claimed_records(count: int) -> list[ClaimedRecord]:
    """Make such records as the relay reads from its outbox."""
    keys = key_names("order", KEYS)
    return [claimed_record(number, keys[number % KEYS]) for number in range(count)]


def claimed_record(number: int, key: str) -> ClaimedRecord:
    now, identity = datetime.now(UTC), uuid7()
    payload = (
        f'{{"total": {number}, "customer": "ann@example.com", "event_id": "{identity}",'
        f' "order_id": "{key}", "occurred_at": "{now.isoformat()}"}}'
    )
    return ClaimedRecord(
        position=number,
        id=identity,
        event_type="OrderPlaced",
        event_version=1,
        aggregate_type="order",
        aggregate_id=key,
        payload_json=payload,
        headers={},
        retry_count=0,
        max_retries=10,
        occurred_at=now,
        created_at=now,
        partition=0,
    )


class Raw:
    """Writes frames that exist already, and counts what the broker confirms."""

    def __init__(self, connection: Connection, records: Sequence[ClaimedRecord]) -> None:
        self._connection = connection
        self._number = connection.register(self)
        self._pieces = [
            b"".join(map(self._encode, records[start : start + PIECE]))
            for start in range(0, len(records), PIECE)
        ]
        self._records = len(records)
        self._replies: asyncio.Queue[Any] = asyncio.Queue()
        self._up_to = 0
        self._beyond: set[int] = set()
        self._moved = asyncio.Event()
        self._trouble: Exception | None = None

    async def open(self) -> None:
        for request in (commands.Channel.Open(), commands.Confirm.Select()):
            self._connection.send(request, self._number)
            await self._replies.get()

    async def deliver(self) -> None:
        sent = start = self._confirmed
        for piece in self._pieces:
            await self._until(sent + PIECE - AHEAD)
            self._connection.write(piece)
            await self._connection.drain()
            sent += PIECE
        await self._until(start + self._records)

    def _encode(self, record: ClaimedRecord) -> bytes:
        where = publish(self._number, NAME, record.event_type)
        what = message(self._number, plain_message(record), self._connection.frame_max)
        return b"".join((where, *what))

    @property
    def _confirmed(self) -> int:
        return self._up_to + len(self._beyond)

    async def _until(self, confirmed: int) -> None:
        while self._confirmed < confirmed:
            if self._trouble is not None:
                raise self._trouble
            self._moved.clear()
            await self._moved.wait()

    # -- what the connection calls

    def take(self, received: Any) -> None:
        self._replies.put_nowait(received)

    def confirm(self, tag: int, *, multiple: bool, ack: bool) -> None:
        if not ack:
            self.lose(RuntimeError("RabbitMQ did not take a message"))
        if multiple:
            self._up_to = max(self._up_to, tag)
            self._beyond = {each for each in self._beyond if each > self._up_to}
        else:
            self._beyond.add(tag)
        self._moved.set()

    def lose(self, error: Exception) -> None:
        self._trouble = error
        self._moved.set()

    def block(self) -> None:
        self.lose(RuntimeError("RabbitMQ takes nothing at the moment"))


class Counting(RabbitMQPublisher):
    """Tells when the broker has confirmed so many records."""

    def __init__(self, url: str) -> None:
        super().__init__(url, exchange=NAME, topology=TOPOLOGY)
        self._missing = 0
        self._complete = asyncio.Event()

    def expect(self, records: int) -> None:
        self._missing = records
        self._complete.clear()

    async def complete(self) -> None:
        await self._complete.wait()

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome | Outage]:
        outcomes = await super().publish(records)
        self._missing -= len(records)
        if self._missing <= 0:
            self._complete.set()
        return outcomes


@dataclass(kw_only=True)
class Relayed:
    """A relay that runs, and an outbox that is filled while it has nothing to do."""

    relay: OutboxRelay
    publisher: Counting
    engine: AsyncEngine
    records: int

    async def fill(self) -> None:
        while not self.relay.idle:  # noqa: ASYNC110 - it tells, but does not call
            await asyncio.sleep(0.01)
        self.publisher.expect(self.records)
        async with self.engine.begin() as connection:
            await connection.execute(text(f"TRUNCATE {outbox.tables.records.fullname}"))
            await add_records(connection, outbox, self.records, key_names("order", KEYS))
        await vacuum(self.engine, outbox)

    async def deliver(self) -> None:
        self.relay.wake()
        await self.publisher.complete()


async def by_aio_pika(exchange: AbstractExchange, records: Sequence[ClaimedRecord]) -> None:
    """Publish batch by batch, each when the one before it is confirmed."""
    for start in range(0, len(records), PIECE):
        await asyncio.gather(
            *(
                exchange.publish(aio_pika_message(record), record.event_type, mandatory=True)
                for record in records[start : start + PIECE]
            )
        )


def aio_pika_message(record: ClaimedRecord) -> aio_pika.Message:
    ours = plain_message(record)
    return aio_pika.Message(
        ours.body,
        headers=dict(ours.headers),
        message_id=ours.message_id,
        type=ours.type,
        timestamp=ours.timestamp,
        content_type=ours.content_type,
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
    )


async def nothing() -> None:
    """Prepare nothing."""


@asynccontextmanager
async def relay_side(database: str, broker: str, records: int, batch: int) -> AsyncIterator[Side]:
    engine = create_async_engine(database)
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    publisher = Counting(broker)
    relay = OutboxRelay(
        outbox,
        engine,
        publisher,
        batch_size=batch,
        poll_interval=timedelta(minutes=10),
    )
    relayed = Relayed(relay=relay, publisher=publisher, engine=engine, records=records)
    async with relay.running():
        yield Side(name="relay", prepare=relayed.fill, deliver=relayed.deliver, records=records)
    await engine.dispose()


@asynccontextmanager
async def aio_pika_side(broker: str, records: Sequence[ClaimedRecord]) -> AsyncIterator[Side]:
    async with await aio_pika.connect(broker) as connection:
        channel = await connection.channel(publisher_confirms=True)
        exchange = await channel.get_exchange(NAME, ensure=False)
        deliver = partial(by_aio_pika, exchange, records)
        yield Side(name="aio-pika", prepare=nothing, deliver=deliver, records=len(records))


@asynccontextmanager
async def raw_side(broker: str, records: Sequence[ClaimedRecord]) -> AsyncIterator[Side]:
    connection = await Connection.open(Address.parse(broker))
    raw = Raw(connection, records)
    await raw.open()
    yield Side(name="raw", prepare=nothing, deliver=raw.deliver, records=len(records))
    await connection.close()


@asynccontextmanager
async def purger(broker: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Give what empties the queue."""
    connection = await Connection.open(Address.parse(broker))
    channel = await Channel(connection).open()

    async def purge() -> None:
        await channel.ask(commands.Queue.Purge(queue=NAME), commands.Queue.PurgeOk)

    yield purge
    await connection.close()


async def measure(database: str, broker: str, *, records: int, turns: int, batch: int) -> None:
    """Drain, compare, report."""
    made = claimed_records(records)
    async with (
        relay_side(database, broker, records, batch) as relay,
        raw_side(broker, made) as raw,
        aio_pika_side(broker, made) as peer,
        purger(broker) as purge,
    ):
        sides = [relay, raw, peer]
        gc.freeze()  # what the sides hold ready is not for the others to walk through
        await relay.prepare()  # when it has nothing to do, the queue is there
        for _ in range(turns):
            for side in random.sample(sides, len(sides)):
                await side.take_turn()
                await purge()
    print(*sides, sep="\n")
    for other in (raw, peer):
        ratios = [theirs / ours for theirs, ours in zip(other.times, relay.times, strict=True)]
        print(f"rate of the relay, as a ratio to {other.name} (median, quartiles): {ratio(ratios)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--batch", type=int, default=100)
    options = parser.parse_args()
    if options.turns < 2:
        parser.error("one turn has no quartiles: take 2 at least")
    with bench_database() as database, bench_vhost() as broker:
        asyncio.run(measure(database, broker, **vars(options)))


if __name__ == "__main__":
    main()
