"""How long an operator waits for an answer about a large outbox on PostgreSQL.

The outbox holds a million published records, 100,000 pending ones and 10,000 that failed, each with
an error of its own. Every question is asked several times, in random order: on tables that were
never analyzed, with statements planned while they were empty, and on vacuumed and analyzed ones.
At last the commands that ask them are run, each in a process.
"""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from benchmarks.backlog import add_records, block_keys, key_names, vacuum
from benchmarks.commands import time_commands
from benchmarks.figures import Figure, table
from benchmarks.measure import bench_database
from postroom import Outbox, OutboxRecord
from postroom.inspection import PENDING, Inspector, RecordFilter, RecordState
from postroom.record import Key
from postroom.store.store import Store

BOUND = 150.0
"""Milliseconds that an answer may take."""
PUBLISHED, READY, HOT, WAITING, FAILED, FOLLOWERS = 1_000_000, 40_000, 15_000, 5_000, 10_000, 4
"""Records of each kind; `FOLLOWERS` are parked behind each one that failed."""
SPREAD = "random() * interval '7 days'"
ERROR = """'PaymentDeclined: card ' || md5(CAST(n AS text)) || ' of '
    || translate(md5(CAST(n AS text)), '0123456789', 'ghijklmnop')"""
"""10,000 errors, of which no two are of one kind."""

Question = Callable[[], Awaitable[object]]


class OperatorsRecord(OutboxRecord):
    """A record of the outbox that operators look at."""


outbox = Outbox(MetaData(), table="operated", record=OperatorsRecord)
RECORDS = outbox.tables.records.fullname


@dataclass(frozen=True)
class Sizes:
    """A part of all records, and how often each question is asked."""

    part: float
    turns: int

    def of(self, number: int) -> int:
        return max(10, int(number * self.part))


async def fill(engine: AsyncEngine, sizes: Sizes) -> None:
    """Write all records."""
    async with engine.begin() as connection:
        await add_records(
            connection,
            outbox,
            sizes.of(PUBLISHED),
            key_names("done", sizes.of(20_000)),
            status="'published'",
            ready="false",
            published_at="now()",
            created_at=f"now() - {SPREAD}",
        )
        await _add_failed(connection, sizes.of(FAILED))
        waiting = {"ready": "false", "due_at": "now() + interval '1 hour'", "retry_count": "3"}
        await add_records(
            connection,
            outbox,
            sizes.of(WAITING),
            key_names("late", sizes.of(WAITING)),
            error_message="'Timeout: 30 s'",
            **waiting,
        )
        await block_keys(connection, outbox, "status = 'failed' OR due_at IS NOT NULL")
        await add_records(connection, outbox, sizes.of(READY), key_names("new", 5_000))
        await add_records(connection, outbox, sizes.of(HOT), ["hot"])
        await connection.execute(
            text(f"""UPDATE {RECORDS} SET event_type = 'Order' || position % 20
                WHERE status <> 'published'""")
        )


async def _add_failed(connection: AsyncConnection, number: int) -> None:
    """Write records that failed, and others that are parked behind them."""
    keys = key_names("bad", number)
    failed = {"status": "'failed'", "error_message": ERROR, "retry_count": "10"}
    await add_records(connection, outbox, number, keys, ready="false", **failed)
    await add_records(connection, outbox, FOLLOWERS * number, keys, ready="false")


def questions(inspector: Inspector, known: Mapping[str, str]) -> dict[str, Question]:
    """Return what operators ask."""
    records = inspector.records
    failed, pending = frozenset({RecordState.FAILED}), PENDING
    bad = Key("order", "bad-3")
    return {
        "overview": inspector.overview,
        "records: newest": records,
        "records: oldest pending": lambda: records(
            RecordFilter(states=pending), newest_first=False
        ),
        "records: newest pending of a type": lambda: records(
            RecordFilter(states=pending, event_type="Order7*")
        ),
        "records: failed with an error": lambda: records(
            RecordFilter(states=failed, error="declined: ffff")
        ),
        "records: an error that none has": lambda: records(RecordFilter(error="no such error")),
        "records: pending of a key": lambda: records(RecordFilter(states=pending, key=bad)),
        "record: by position": lambda: inspector.record(known["position"]),
        "record: parked, by id": lambda: inspector.record(known["id"]),
        "key: blocked": lambda: inspector.key(bad),
        "key: hot": lambda: inspector.key("order/hot"),
        "failures": inspector.failures,
        "failures: records of a group": lambda: inspector.records_of(known["group"]),
        "blocked keys": inspector.blocked_keys,
        "blocked keys: page 100": lambda: inspector.blocked_keys(cursor=5_000),
        "workers": inspector.workers,
        "event types": inspector.event_types,
        "pauses": inspector.pauses,
        "audit": inspector.audit,
    }


async def ask(inspector: Inspector, turns: int, state: str) -> list[Figure]:
    """Time every question, in random order; without its first answer."""
    [page] = (await inspector.records(RecordFilter(states=PENDING), limit=1)).records
    failures = await inspector.failures()
    known = {
        "position": str(page.position),
        "id": str((await inspector.key("order/bad-3")).first.id),  # type: ignore[union-attr]
        "group": failures.groups[0].id,
    }
    asked = questions(inspector, known)
    times: dict[str, list[float]] = {name: [] for name in asked}
    for turn in range(-1, turns):
        for name in random.sample(list(asked), len(asked)):
            start = time.perf_counter()
            await asked[name]()
            if turn >= 0:
                times[name].append(1000 * (time.perf_counter() - start))
    return [
        Figure(row=state, contender=name, what="answer", values=each, unit="ms", at_most=BOUND)
        for name, each in times.items()
    ]


async def measure(url: str, sizes: Sizes) -> list[Figure]:
    """Fill an outbox, and ask; again when it is vacuumed and analyzed."""
    engine = create_async_engine(url, pool_size=1)
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    await Store(engine, outbox.tables).open()
    inspector = Inspector(outbox, engine)
    for _ in range(10):  # PostgreSQL keeps a plan after five
        await inspector.overview()
    await fill(engine, sizes)
    figures = await ask(inspector, sizes.turns, "never analyzed")
    await vacuum(engine, outbox)
    figures += await ask(inspector, sizes.turns, "analyzed")
    [page] = (await inspector.records(RecordFilter(states=PENDING), limit=1)).records
    await engine.dispose()
    return figures + time_commands(url, RECORDS, page.position, sizes.turns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7, help="answers to each question")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the records")
    options = parser.parse_args()
    sizes = Sizes(0.01 if options.quick else 1.0, options.turns)
    with bench_database() as url:
        figures = asyncio.run(measure(url, sizes))
    print(table(figures))
    sys.exit(any(figure.ok is False for figure in figures) and not options.quick)


if __name__ == "__main__":
    main()
