"""How fast a relay drains an outbox to RabbitMQ, next to what RabbitMQ takes at all.

The floor is raw: frames that were encoded before the clock starts, written in pieces, as many on
their way at once as the relay may have. The two take turns. Both go to one durable queue, which is
emptied in between, and count when the broker has confirmed the last message.
"""

import argparse
import asyncio
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from typing import Any

from pamqp import commands
from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.backlog import add_records, key_names, vacuum
from benchmarks.measure import bench_database, ratio
from postroom import Outbox, OutboxRelay
from postroom.identity import uuid7
from postroom.publishers.base import Outcome
from postroom.publishers.rabbitmq import Binding, Exchange, Queue, RabbitMQPublisher, Topology
from postroom.publishers.rabbitmq import frames
from postroom.publishers.rabbitmq.address import Address
from postroom.publishers.rabbitmq.confirms import ConfirmChannel
from postroom.publishers.rabbitmq.connection import Connection
from tests.support.rabbitmq import temporary_vhost
from tests.support.services import service_url

EXCHANGE, QUEUE = "bench", "bench"
TOPOLOGY = Topology(
    exchanges=[Exchange(EXCHANGE)], queues=[Queue(QUEUE, [Binding(EXCHANGE)])]
)
PIECE = 250

metadata = MetaData()
outbox = Outbox(metadata)


class Raw:
    """Writes frames that exist already, and counts what the broker confirms."""

    def __init__(self, connection: Connection, ahead: int) -> None:
        self._connection = connection
        self._ahead = ahead
        self._number = connection.register(self)
        self._replies: asyncio.Queue[Any] = asyncio.Queue()
        self._confirmed = 0
        self._moved = asyncio.Event()

    async def open(self) -> None:
        for request in (commands.Channel.Open(), commands.Confirm.Select()):
            self._connection.send(request, self._number)
            await self._replies.get()

    def encode(self, records: int, keys: Sequence[str]) -> list[bytes]:
        where = frames.publish(self._number, EXCHANGE, "OrderPlaced")
        pieces = []
        for start in range(0, records, PIECE):
            messages = range(start, min(start + PIECE, records))
            pieces.append(b"".join(where + self._message(n, keys[n % len(keys)]) for n in messages))
        return pieces

    def _message(self, number: int, key: str) -> bytes:
        now, identity = datetime.now(UTC), uuid7()
        body = (
            f'{{"total": {number}, "customer": "ann@example.com", "event_id": "{identity}",'
            f' "order_id": "{key}", "occurred_at": "{now.isoformat()}"}}'
        )
        headers = {
            "aggregate_type": "order",
            "aggregate_id": key,
            "event_type": "OrderPlaced",
            "event_version": 1,
            "position": number,
            "created_at": now.isoformat(),
        }
        message = frames.Message(
            body=body.encode(), message_id=str(identity), type="OrderPlaced", timestamp=now, headers=headers
        )
        return b"".join(frames.message(self._number, message, self._connection.frame_max))

    async def publish(self, pieces: Sequence[bytes], records: int) -> float:
        start, sent = time.perf_counter(), 0
        goal = self._confirmed + records
        base = self._confirmed
        for piece in pieces:
            while sent - (self._confirmed - base) > self._ahead - PIECE:
                self._moved.clear()
                await self._moved.wait()
            self._connection.write(piece)
            await self._connection.drain()
            sent += PIECE
        while self._confirmed < goal:
            self._moved.clear()
            await self._moved.wait()
        return records / (time.perf_counter() - start)

    def take(self, received: Any) -> None:
        self._replies.put_nowait(received)

    def confirm(self, tag: int, *, multiple: bool, ack: bool) -> None:
        self._confirmed = max(self._confirmed, tag) if multiple else self._confirmed + 1
        self._moved.set()

    def lose(self, error: Exception) -> None:
        raise error

    def block(self) -> None:
        raise RuntimeError("the broker is blocked")


class Watched(RabbitMQPublisher):
    def __init__(self, url, goal, **o):
        super().__init__(url, **o)
        self.goal = goal; self.done = asyncio.Event(); self.sizes=[]; self.waits=[]
    async def publish(self, records):
        self.sizes.append(len(records))
        t=time.perf_counter()
        out = await super().publish(records)
        self.waits.append(time.perf_counter()-t)
        self.goal -= len(records)
        if self.goal <= 0:
            self.done.set()
        return out


async def relay_rate(engine, url, records, keys, lanes, batch) -> tuple[float,float]:
    async with engine.begin() as connection:
        await connection.execute(text("TRUNCATE outbox"))
        await add_records(connection, outbox, records, keys)
    await vacuum(engine, outbox)
    publisher = Watched(url, records, exchange=EXCHANGE, topology=TOPOLOGY)
    relay = OutboxRelay(outbox, engine, publisher, batch_size=batch, lanes=lanes)
    start, cpu = time.perf_counter(), time.process_time()
    async with relay.running():
        await publisher.done.wait()
        took = time.perf_counter() - start
        cpu = time.process_time() - cpu
    print(f"   calls {len(publisher.sizes)} mean {sum(publisher.sizes)/len(publisher.sizes):.0f} wait median {median(publisher.waits)*1000:.1f} ms cpu/rec {cpu/records*1e6:.1f} us")
    return records / took


async def main(url: str, broker: str, records: int, turns: int, lanes: int, batch: int) -> None:
    keys = key_names("order", 1000)
    engine = create_async_engine(url)
    async with engine.begin() as c:
        await c.run_sync(outbox.create_tables)
    p = RabbitMQPublisher(broker, exchange=EXCHANGE, topology=TOPOLOGY)
    await p.open(outbox, engine); await p.close()
    connection = await Connection.open(Address.parse(broker))
    raw = Raw(connection, 2000)
    await raw.open()
    scratch = await ConfirmChannel.open(connection)
    ratios=[]
    async def purge():
        await scratch.ask(commands.Queue.Purge(queue=QUEUE), commands.Queue.PurgeOk)
    for _ in range(turns):
        pieces = raw.encode(records, keys)
        r = await raw.publish(pieces, records); await purge()
        y = await relay_rate(engine, broker, records, keys, lanes, batch); await purge()
        ratios.append(y/r)
        print(f"raw {r:,.0f}/s relay {y:,.0f}/s ratio {y/r:.2f}")
    print(ratio(ratios))
    await connection.close(); await engine.dispose()

if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("--records", type=int, default=20000); a.add_argument("--turns", type=int, default=5); a.add_argument("--lanes", type=int, default=1); a.add_argument("--batch", type=int, default=500)
    o = a.parse_args()
    with bench_database() as url, temporary_vhost(service_url("POSTROOM_TEST_RABBITMQ_URL"), f"bench_{uuid7().hex}") as broker:
        asyncio.run(main(url, broker, o.records, o.turns, o.lanes, o.batch))
