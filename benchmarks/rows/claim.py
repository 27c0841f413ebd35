"""What a claim and a poll cost with much in the table: against a table of ready records only.

The outboxes take turns, call by call, in random order. They are measured in two states: vacuumed
and analyzed, and as after a burst on an idle relay: statements prepared and planned while the
tables were empty, which were filled later, without ANALYZE.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import MetaData, text, update
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.backlog import add_records, block_keys, key_names, vacuum
from benchmarks.contender import Contender
from benchmarks.figures import Figure
from benchmarks.measure import interleaved
from benchmarks.sizes import Sizes
from benchmarks.turns import Bench
from postroom import Outbox, OutboxRecord
from postroom.record import PARTITIONS
from postroom.store.base import Claim, Poll
from postroom.store.store import Store

KEYS = 250
DEPTH = -(-500 // PARTITIONS)  # a batch of 500, spread evenly
LEASE = timedelta(hours=1)
BOUND = 2
FOLLOWED = "followed-0"
DELIVERED = {"status": "published", "ready": False}
CASES = {
    "plain": "",
    "published": "{published:,} published kept",
    "followers": "{followers:,} followers of a blocked key",
    "backoff": "{backoff:,} keys in backoff",
    "stale": "{backoff:,} delivered since ANALYZE",
}


@dataclass(kw_only=True)
class Desk:
    """An outbox, and a worker that holds every partition of it."""

    outbox: Outbox
    engine: AsyncEngine
    store: Store
    tokens: Mapping[int, int] = field(default_factory=dict)

    async def lease(self) -> None:
        """Lease every partition."""
        self.tokens = {lease.partition: lease.token for lease in (await self.poll()).leases}

    async def claim(self) -> Claim:
        return await self.store.claims.claim(self.tokens, depth=DEPTH)

    async def poll(self) -> Poll:
        return await self.store.leases.poll("bench", lease=LEASE)

    async def followers(self) -> int:
        """Count the followers that are not parked yet."""
        records = self.outbox.tables.records.fullname
        ready = text(f"SELECT count(*) FROM {records} WHERE ready AND aggregate_id = '{FOLLOWED}'")
        async with self.engine.connect() as connection:
            return int((await connection.execute(ready)).scalar_one())


async def measure(bench: Bench, sizes: Sizes, peers: Sequence[Contender]) -> list[Figure]:
    """Times of a claim and of a poll, as ratios to those with only ready records."""
    engine = create_async_engine(bench.engine.url)
    figures = await _measure(engine, sizes, analyzed=True)
    figures += await _measure(engine, sizes, analyzed=False)
    await engine.dispose()
    return figures


async def _measure(engine: AsyncEngine, sizes: Sizes, *, analyzed: bool) -> list[Figure]:
    idle_calls = 0 if analyzed else sizes.idle_calls
    desks = {case: await _desk(engine, case, idle_calls) for case in _cases(analyzed)}
    for case, desk in desks.items():
        await _fill(desk, case, sizes)
        if analyzed:
            await vacuum(engine, desk.outbox, analyze=case != "stale")
        await desk.lease()
    while await desks["followers"].followers():
        await desks["followers"].claim()
    sides = [call for desk in desks.values() for call in (desk.claim, desk.poll)]
    await interleaved(sides, sizes.claim_calls)  # to warm up
    times = [await interleaved(sides, sizes.claim_calls) for _ in range(sizes.claim_rounds)]
    for desk in desks.values():
        await _drop(desk)
    row = "claim" if analyzed else "claim, planned on empty tables"
    return _figures(row, list(desks), sizes, times)


def _figures(
    row: str, cases: Sequence[str], sizes: Sizes, times: Sequence[Sequence[float]]
) -> list[Figure]:
    """One figure for each case and call; `times` has claim and poll of every case in turn."""
    counts = {name: getattr(sizes, name) for name in ("published", "followers", "backoff")}
    calls = ("claim", "poll")
    plain = [
        Figure(
            row=row,
            contender="postroom",
            what=f"{call}, only {sizes.ready:,} ready",
            values=[1e3 * taken[kind] for taken in times],
            unit="ms",
        )
        for kind, call in enumerate(calls)
    ]
    return plain + [
        Figure(
            row=row,
            contender="postroom",
            what=f"{call}, {CASES[case].format(**counts)}",
            values=[taken[2 * each + kind] / taken[kind] for taken in times],
            at_most=BOUND,
        )
        for kind, call in enumerate(calls)
        for each, case in enumerate(cases)
        if case != "plain"
    ]


def _cases(analyzed: bool) -> list[str]:
    return [case for case in CASES if analyzed or case != "stale"]


async def _desk(engine: AsyncEngine, case: str, idle_calls: int) -> Desk:
    """Create an outbox; poll and claim so often while it is empty."""
    table = f"claim_idle_{case}" if idle_calls else f"claim_{case}"
    outbox = Outbox(MetaData(), table=table, record=type("ClaimRecord", (OutboxRecord,), {}))
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    store = Store(engine, outbox.tables, lease=LEASE)
    store.database.sql.install(engine)  # as a relay does with its own
    desk = Desk(outbox=outbox, engine=engine, store=store)
    await desk.store.open()
    if idle_calls:
        await vacuum(engine, outbox)
        for _ in range(idle_calls):
            await desk.lease()
            await desk.claim()
    return desk


async def _fill(desk: Desk, case: str, sizes: Sizes) -> None:
    """Write what a case is named for, then what is ready, behind it."""
    outbox = desk.outbox
    async with desk.engine.begin() as connection:
        if case == "published":
            done = {column: f"'{value}'" for column, value in DELIVERED.items()}
            await add_records(connection, outbox, sizes.published, key_names("old", 1000), **done)
        elif case == "followers":
            failed = {"status": "'failed'", "ready": "false", "retry_count": "10"}
            await add_records(connection, outbox, 1, [FOLLOWED], **failed)
            await block_keys(connection, outbox, "status = 'failed'")
            await add_records(connection, outbox, sizes.followers, [FOLLOWED])
        elif case == "backoff":
            due = "now() + make_interval(hours => 1, secs => n % 3600)"
            waits = {"ready": "false", "retry_count": "6", "due_at": due}
            keys = key_names("waiting", sizes.backoff)
            await add_records(connection, outbox, sizes.backoff, keys, **waits)
            await block_keys(connection, outbox, "due_at IS NOT NULL")
        elif case == "stale":
            # Of few keys: the more of them fall together, the better the wrong index looks.
            await add_records(connection, outbox, sizes.backoff, key_names("old", 20))
            await connection.execute(text(f"ANALYZE {outbox.tables.records.fullname}"))
            await connection.execute(update(outbox.tables.records).values(DELIVERED))
        await add_records(connection, outbox, sizes.ready, key_names("ready", KEYS))


async def _drop(desk: Desk) -> None:
    async with desk.engine.begin() as connection:
        await connection.run_sync(desk.outbox.metadata.drop_all)
