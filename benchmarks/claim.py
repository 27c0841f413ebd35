"""What a claim and a poll cost with much in the table: against a table of ready records only.

The outboxes take turns, call by call, in random order; a ratio is that of two neighbours in time.
"""

import argparse
import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median

from sqlalchemy import MetaData, text, update
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.backlog import add_records, block_keys, key_names, vacuum
from benchmarks.measure import bench_database, interleaved, ratio
from postroom import Outbox, OutboxRecord
from postroom.record import PARTITIONS
from postroom.store.base import Claim, Poll
from postroom.store.store import Store

READY = 1000
KEYS = 250
DEPTH = -(-500 // PARTITIONS)  # a batch of 500, spread evenly
LEASE = timedelta(hours=1)
FOLLOWED = "followed-0"
DELIVERED = {"status": "published", "ready": False}

metadata = MetaData()


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much is in the table beside what is ready."""

    published: int
    followers: int
    backoff: int
    stale: int


@dataclass(kw_only=True)
class Desk:
    """An outbox, and a worker that holds every partition of it."""

    outbox: Outbox
    engine: AsyncEngine
    store: Store
    tokens: Mapping[int, int] = field(default_factory=dict)

    async def claim(self) -> Claim:
        return await self.store.claims.claim(self.tokens, depth=DEPTH)

    async def poll(self) -> Poll:
        return await self.store.leases.poll("bench", lease=LEASE)

    async def followers(self) -> int:
        """Count the followers that nobody has met yet."""
        records = self.outbox.tables.records.fullname
        met = text(f"SELECT count(*) FROM {records} WHERE ready AND aggregate_id = '{FOLLOWED}'")
        async with self.engine.connect() as connection:
            return int((await connection.execute(met)).scalar_one())


def make_outbox(table: str) -> Outbox:
    record = type(f"{table.title()}Record", (OutboxRecord,), {})
    return Outbox(metadata, table=table, record=record)


NAMES = ("plain", "published", "followers", "backoff", "stale")
OUTBOXES = {name: make_outbox(name) for name in NAMES}


async def fill(engine: AsyncEngine, name: str, sizes: Sizes) -> None:
    """Write what a table is named for, then what is ready, behind it."""
    outbox = OUTBOXES[name]
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
        if name == "published":
            done = {column: f"'{value}'" for column, value in DELIVERED.items()}
            await add_records(connection, outbox, sizes.published, key_names("old", 1000), **done)
        elif name == "followers":
            failed = {"status": "'failed'", "ready": "false", "retry_count": "10"}
            await add_records(connection, outbox, 1, [FOLLOWED], **failed)
            await block_keys(connection, outbox, "status = 'failed'")
            await add_records(connection, outbox, sizes.followers, [FOLLOWED])
        elif name == "backoff":
            due = "now() + make_interval(hours => 1, secs => n % 3600)"
            waits = {"ready": "false", "retry_count": "6", "due_at": due}
            keys = key_names("waiting", sizes.backoff)
            await add_records(connection, outbox, sizes.backoff, keys, **waits)
            await block_keys(connection, outbox, "due_at IS NOT NULL")
        elif name == "stale":
            # Of few keys: the more of them fall together, the better the wrong index looks.
            await add_records(connection, outbox, sizes.stale, key_names("old", 20))
            await connection.execute(text(f"ANALYZE {outbox.tables.records.fullname}"))
            await connection.execute(update(outbox.tables.records).values(DELIVERED))
        await add_records(connection, outbox, READY, key_names("ready", KEYS))
    await vacuum(engine, outbox, analyze=name != "stale")


async def open_desk(engine: AsyncEngine, name: str, sizes: Sizes) -> Desk:
    """Fill an outbox, and lease its partitions."""
    await fill(engine, name, sizes)
    outbox = OUTBOXES[name]
    desk = Desk(outbox=outbox, engine=engine, store=Store(engine, outbox.tables))
    await desk.store.open()
    desk.tokens = {lease.partition: lease.token for lease in (await desk.poll()).leases}
    return desk


async def park(desk: Desk) -> tuple[int, list[float]]:
    """Claim until every follower has been met; give how many, and the time of each claim."""
    followers, times = await desk.followers(), []
    while await desk.followers():
        start = time.perf_counter()
        await desk.claim()
        times.append(time.perf_counter() - start)
    return followers, times


async def compare(desks: Sequence[Desk], rounds: int, calls: int) -> list[list[float]]:
    """Give the time of a claim of each desk, then that of a poll of each, for every round."""
    sides = [*(desk.claim for desk in desks), *(desk.poll for desk in desks)]
    await interleaved(sides, 2 * calls)  # to warm up
    return [await interleaved(sides, calls) for _ in range(rounds)]


async def measure(url: str, sizes: Sizes, rounds: int, calls: int) -> None:
    """Fill, measure, report."""
    engine = create_async_engine(url)
    first = next(iter(OUTBOXES.values()))
    Store(engine, first.tables, lease=LEASE).database.sql.install(
        engine
    )  # as a relay does with its own
    desks = {name: await open_desk(engine, name, sizes) for name in OUTBOXES}
    followers, parking = await park(desks["followers"])
    claimed = len((await desks["plain"].claim()).records)
    times = await compare(list(desks.values()), rounds, calls)
    await engine.dispose()
    names = [
        f"{sizes.published:,} published records kept",
        f"{sizes.followers:,} followers of a blocked key, parked",
        f"{sizes.backoff:,} records of as many keys in backoff",
        f"{sizes.stale:,} delivered since the last ANALYZE",
    ]
    print(f"time, as a ratio to that with only {READY:,} records, all ready (median, quartiles)")
    for what, plain in (("claim", 0), ("poll", len(desks))):
        for each, name in enumerate(names, plain + 1):
            print(f"  {what + ', ' + name:<58}{ratio([row[each] / row[plain] for row in times])}")
    claim, poll = (1e3 * median(row[plain] for row in times) for plain in (0, len(desks)))
    print(f"there, a claim of {claimed} records takes {claim:.1f} ms, and a poll {poll:.1f} ms")
    print(
        f"followers are met once, {1e6 * sum(parking) / followers:.0f} µs each:"
        f" {len(parking)} claims, the longest {1e3 * max(parking):.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=10, help="of each kind, per round")
    parser.add_argument("--published", type=int, default=1_000_000)
    parser.add_argument("--followers", type=int, default=100_000)
    parser.add_argument("--backoff", type=int, default=100_000)
    parser.add_argument("--stale", type=int, default=100_000)
    options = parser.parse_args()
    sizes = Sizes(**{name: getattr(options, name) for name in Sizes.__annotations__})
    with bench_database() as url:
        asyncio.run(measure(url, sizes, options.rounds, options.calls))


if __name__ == "__main__":
    main()
