"""How long an operator waits for an answer about a large outbox on PostgreSQL.

The outbox holds a million published records, 100,000 pending ones and 10,000 that failed, each with
an error of its own. Every question is asked several times, in random order: on tables that were
never analyzed, with statements planned while they were empty, and on vacuumed and analyzed ones.
At last the commands that ask them are run, each in a process.
"""

import argparse
import asyncio
import sys
from collections.abc import Mapping

from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.backlog import vacuum
from benchmarks.commands import time_commands
from benchmarks.figures import Figure, table
from benchmarks.measure import Side, bench_database, timed
from benchmarks.operated import RECORDS, Sizes, create_tables, fill, outbox
from postroom.inspection import PENDING, Inspector, RecordFilter, RecordState
from postroom.record import Key

BOUND = 150.0
"""Milliseconds that an answer may take."""


def questions(inspector: Inspector, known: Mapping[str, str]) -> dict[str, Side]:
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
    times = await timed(questions(inspector, known), turns)
    return [
        Figure(row=state, contender=name, what="answer", values=each, unit="ms", at_most=BOUND)
        for name, each in times.items()
    ]


async def measure(url: str, sizes: Sizes) -> list[Figure]:
    """Fill an outbox, and ask; again when it is vacuumed and analyzed."""
    engine = create_async_engine(url, pool_size=1)
    await create_tables(engine)
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
