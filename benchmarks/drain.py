"""How fast a relay drains a backlog to a way out that costs nothing, and in how much memory.

With `--floor` it takes turns, a tenth at a time, with a loop written by hand on a table alike: no
order, no leases, no retries, and a transaction that is held open while it delivers. While the relay
waits for its turn, it holds a thousand records that it has claimed: a tenth is to be far more.
"""

import argparse
import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import asyncpg
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.backlog import OrderPlaced, add_records, key_names, vacuum
from benchmarks.measure import bench_database, ratio
from postroom import (
    ClaimedRecord,
    Delivered,
    HandlersPublisher,
    Outage,
    Outbox,
    OutboxRecord,
    OutboxRelay,
    Outcome,
    Publisher,
    UsesOutbox,
    handles,
)

BATCH = 500
KEYS = 1000
PARTS = 10
LEAST = 2000

Delivery = Callable[[int], Awaitable[int]]

metadata = MetaData()
relayed = Outbox(metadata, table="relayed")


class RecordByHand(OutboxRecord):
    """Of the outbox that a loop written by hand drains."""


looped = Outbox(metadata, table="looped", record=RecordByHand)


@handles(OrderPlaced)
class Ignore:
    async def handle(self, event: OrderPlaced) -> None:
        pass


class Sink:
    """Accepts everything, and keeps nothing."""

    max_batch: Final = BATCH
    max_in_flight: Final = BATCH

    async def open(self) -> None:
        pass

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome | Outage]:
        return [Delivered()] * len(records)

    async def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a relay was: after so many records."""

    records: int
    at: float
    rss: int


class Gauge:
    """In front of a publisher: lets so many records pass, and looks around at every tenth."""

    def __init__(self, publisher: Publisher, total: int) -> None:
        self.max_batch = publisher.max_batch
        self.max_in_flight = publisher.max_in_flight
        self.open = publisher.open
        self.close = publisher.close
        self.delivered = 0
        self.marks: list[Mark] = []
        self._publisher = publisher
        self._total = total
        self._goal = 0
        self._going = asyncio.Event()
        self._reached = asyncio.Event()

    def use(self, outbox: Outbox, engine: AsyncEngine) -> None:
        """Pass the relay's outbox on, to a publisher that needs it."""
        if isinstance(self._publisher, UsesOutbox):
            self._publisher.use(outbox, engine)

    async def deliver(self, count: int) -> int:
        """Let a relay deliver so many more, or a few above, then make it wait; give how many."""
        before, self._goal = self.delivered, self.delivered + count
        self._reached.clear()
        self._going.set()
        await self._reached.wait()
        return self.delivered - before

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome | Outage]:
        await self._going.wait()
        self._look_around()
        outcomes = await self._publisher.publish(records)
        self.delivered += len(records)
        self._look_around()
        if self.delivered >= self._goal:
            self._going.clear()
            self._reached.set()
        return outcomes

    def _look_around(self) -> None:
        if self.delivered >= min(self._total, self._total * len(self.marks) // PARTS):
            self.marks.append(Mark(self.delivered, time.perf_counter(), resident_kib()))


@dataclass(slots=True)
class Effort:
    """What delivering so many records took."""

    records: int = 0
    seconds: float = 0.0
    cpu: float = 0.0

    async def spend(self, work: Awaitable[int]) -> float:
        """Await work that gives how many records it delivered; give its time for each."""
        start, cpu = time.perf_counter(), time.process_time()
        records = await work
        taken = time.perf_counter() - start
        self.records += records
        self.seconds += taken
        self.cpu += time.process_time() - cpu
        return taken / records

    def __str__(self) -> str:
        rate, cpu = self.records / self.seconds, 1e6 * self.cpu / self.records
        return f"{rate:,.0f} records/s, {cpu:.1f} µs of this process's CPU time per record"


def resident_kib() -> int:
    """Give the memory that this process has in RAM."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1])


@asynccontextmanager
async def running(relay: OutboxRelay, gauge: Gauge) -> AsyncIterator[None]:
    """Run a relay, and have it deliver its first records: starting up is not what is measured."""
    async with asyncio.TaskGroup() as group:
        group.create_task(relay.run())
        await gauge.deliver(1)
        yield
        await relay.stop()


async def by_hand(connection: asyncpg.Connection, count: int) -> int:
    """Deliver so many records, batch by batch."""
    # By the index that is there: without an order, every batch would read the table from its start.
    table = looped.tables.records.fullname
    take = f"""SELECT position, id, event_type, event_version, aggregate_type, aggregate_id,
        payload, headers, occurred_at, created_at FROM {table} WHERE ready AND status = 'pending'
        ORDER BY partition, position LIMIT {BATCH} FOR UPDATE SKIP LOCKED"""
    done = f"""UPDATE {table} SET status = 'published', ready = false, published_at = now(),
        updated_at = now() WHERE position = ANY ($1)"""
    delivered = 0
    while delivered < count:
        async with connection.transaction():
            rows = await connection.fetch(take)
            await connection.execute(done, [row["position"] for row in rows])
        delivered += len(rows)
    return delivered


async def load(engine: AsyncEngine, outbox: Outbox, count: int) -> None:
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
        await add_records(connection, outbox, count, key_names("order", KEYS))
    await vacuum(engine, outbox)


async def drain(engine: AsyncEngine, publisher: Publisher, total: int) -> None:
    """Drain all of it in one go."""
    await load(engine, relayed, total)
    gauge, effort = Gauge(publisher, total), Effort()
    async with running(OutboxRelay(relayed, engine, gauge, batch_size=BATCH), gauge):
        await effort.spend(gauge.deliver(total - gauge.delivered))
    print(f"relay: {effort}")
    report(gauge.marks)


async def drain_in_turns(engine: AsyncEngine, publisher: Publisher, total: int) -> None:
    """Drain two tables alike, a tenth of each in turn."""
    for outbox in (relayed, looped):
        await load(engine, outbox, total)
    gauge, ours, floor = Gauge(publisher, total), Effort(), Effort()
    address = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    connection = await asyncpg.connect(address)
    sides: list[tuple[Effort, Delivery]] = [
        (ours, gauge.deliver),
        (floor, partial(by_hand, connection)),
    ]
    async with running(OutboxRelay(relayed, engine, gauge, batch_size=BATCH), gauge):
        ratios = await take_turns(sides, total - gauge.delivered)
    await connection.close()
    print(f"relay:   {ours}\nby hand: {floor}")
    print(f"rate of the relay, as a ratio to that by hand (median, quartiles): {ratio(ratios)}")
    report(gauge.marks)


async def take_turns(sides: Sequence[tuple[Effort, Delivery]], total: int) -> list[float]:
    """Have both sides deliver so many records; give the ratios of their rates, tenth by tenth."""
    ratios: list[float] = []
    for part in range(1, PARTS + 1):
        times: dict[int, float] = {}
        for each in random.sample((0, 1), 2):
            effort, deliver = sides[each]
            if (left := total * part // PARTS - effort.records) > 0:
                times[each] = await effort.spend(deliver(left))
        if len(times) == len(sides):  # a small part may have gone with the one before
            ratios.append(times[1] / times[0])
    return ratios


def report(marks: Sequence[Mark]) -> None:
    """Say what became of memory and rate on the way."""
    start, first, before, last = *marks[:2], *marks[-2:]
    growth = last.rss / first.rss
    print(
        f"memory: {first.rss / 1024:.1f} MiB at {first.records:,} records,"
        f" {last.rss / 1024:.1f} MiB at {last.records:,}: {growth:.2f} ×"
    )
    beginning = (first.at - start.at) / (first.records - start.records)
    end = (last.at - before.at) / (last.records - before.records)
    print(f"rate: in the last tenth {beginning / end:.2f} × that of the first")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--floor", action="store_true", help="compare with a loop written by hand")
    parser.add_argument(
        "--handlers", action="store_true", help="deliver to a handler that does nothing"
    )
    options = parser.parse_args()
    if options.records < LEAST:
        parser.error(f"a relay claims 1,000 records ahead: drain {LEAST:,} at least")
    with bench_database() as url:
        asyncio.run(run(url, options.records, floor=options.floor, handlers=options.handlers))


async def run(url: str, records: int, *, floor: bool, handlers: bool) -> None:
    """Drain so many records."""
    engine = create_async_engine(url)
    publisher = HandlersPublisher() if handlers else Sink()
    await (drain_in_turns if floor else drain)(engine, publisher, records)
    await engine.dispose()


if __name__ == "__main__":
    main()
