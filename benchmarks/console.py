"""What the console costs: how long its pages take, who waits for its locks, and the drain rate.

- pages: on a million published records, 100,000 pending and 10,000 failed ones; on tables that were
  never analyzed, with statements planned while they were empty, and on vacuumed and analyzed ones
- locks: pages are read while an application writes and a relay delivers and fails some; every 5 ms
  somebody looks whether a backend waits for one of the console's
- drain: `postroom console` and three browsers that show the overview, each a process besides the
  relay's. The relay drains a backlog; turns with browsers alternate with turns without a console
"""

import argparse
import asyncio
import gc
import logging
import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.backlog import add_records, key_names, vacuum
from benchmarks.browsers import Browsers, ConsoleProcess, browsers_of, console_process
from benchmarks.drain import Effort, Gauge, Sink, running
from benchmarks.figures import Figure, table
from benchmarks.lock_waits import watched_locks
from benchmarks.measure import bench_database, bench_vhost, timed
from benchmarks.operated import RECORDS, Sizes, create_tables, fill, outbox
from benchmarks.pages import CONSOLE, Pages, known_records, pages_of
from benchmarks.telemetry import KEYS, TARGETS, publisher_to
from benchmarks.worker import process_cpu
from postroom import ClaimedRecord, Delivered, Outage, OutboxRelay, Outcome, Publisher, Refused

PAGE_BOUND: Final = 300.0
"""Milliseconds that a page may take."""
DRAIN_BOUND: Final = 0.98
"""The part of the drain rate that is left with three browsers."""
ARRIVING: Final = 200
"""Records that the application of the locks' part writes at a time."""
SPARE: Final = 20_000
"""Records that are left at the end of a turn: a relay that runs out of work is not measured."""
PARTS: Final = ("pages", "locks", "drain")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is measured, and with what sizes."""

    parts: Sequence[str]
    sizes: Sizes
    drain_turns: int
    drained: int
    """Records that a relay delivers in a turn."""
    target: str


async def time_pages(pages: Pages, engine: AsyncEngine, turns: int, state: str) -> list[Figure]:
    """Time every page, on the clock and in CPU time."""
    read = pages.all(await known_records(engine))
    spent: dict[str, list[float]] = {name: [] for name in read}

    async def read_one(name: str) -> None:
        before = pages.cpu()
        await read[name]()
        spent[name].append(pages.cpu() - before)

    sides = {name: partial(read_one, name) for name in read}
    times = await timed(sides, turns, afterwards=pages.checks_end)
    figures = [
        Figure(row=state, contender=name, what=what, values=values, unit="ms", at_most=at_most)
        for name in read
        for what, values, at_most in (
            ("page", times[name], PAGE_BOUND),
            ("CPU", spent[name][1:], None),
        )
    ]
    return [*figures, _errors(pages, state)]


def _errors(pages: Pages, row: str) -> Figure:
    """Count the pages that could not be made."""
    for answer, number in pages.errors.items():
        print(f"{row}: {number} × {answer}", file=sys.stderr)
    errors = [pages.errors.total()]
    pages.errors.clear()
    return Figure(row=row, contender="all pages", what="errors", values=errors, unit="", at_most=0)


class Moody(Sink):
    """Refuses every 50th record, and accepts the others."""

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome | Outage]:
        return [
            Refused("not today") if record.position % 50 == 0 else Delivered() for record in records
        ]


async def count_lock_waits(url: str, pages: Pages, engine: AsyncEngine, turns: int) -> list[Figure]:
    """Read pages while an application writes and a relay delivers; count who waits for them."""
    known = await known_records(engine)
    logging.getLogger("postroom").setLevel(logging.CRITICAL)  # refusals are meant to be
    relay = OutboxRelay(outbox, engine, Moody(), grace=timedelta())
    async with watched_locks(url, CONSOLE) as seen, asyncio.TaskGroup() as group:
        delivering = group.create_task(relay.run())
        writing = group.create_task(_write(engine))
        await timed(pages.all(known), turns, afterwards=pages.checks_end)
        writing.cancel()
        await relay.stop()
        await delivering
    if seen.example:
        print(seen.example, file=sys.stderr)
    row = "locks, while a relay delivers"
    return [
        Figure(
            row=row,
            contender="console",
            what="waits for it",
            values=[seen.waits],
            unit="",
            at_most=0,
        ),
        Figure(row=row, contender="console", what="looks", values=[seen.looks], unit=""),
        _errors(pages, row),
    ]


async def _write(engine: AsyncEngine) -> None:
    """Write records as an application does, until it is cancelled."""
    while True:
        async with engine.begin() as connection:
            await add_records(connection, outbox, ARRIVING, key_names("live", ARRIVING))
        await asyncio.sleep(0.05)


@dataclass
class Drain:
    """Turns of a relay, with browsers and without a console."""

    engine: AsyncEngine
    gauge: Gauge
    console: ConsoleProcess
    browsers: Browsers
    records: int
    rates: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})
    efforts: dict[bool, Effort] = field(default_factory=lambda: {True: Effort(), False: Effort()})
    """Of all turns: on a large outbox the console takes a sample in few of them."""
    answers: list[float] = field(default_factory=list)
    cpu: float = 0.0
    """Seconds of the console and its database sessions, in all turns with browsers."""

    async def turn(self, kept: int, *, shown: bool) -> None:
        """Deliver some records, while the browsers show the overview or there is no console."""
        self.browsers.hide()
        await refill(self.engine, self.records, kept)
        # Shown now and not before: a sample is due, and is to be taken in this turn. On a large
        # outbox that is more often than with browsers that stay open, never less often.
        (self.browsers.show if shown else self.console.freeze)()
        self.browsers.answers()
        cpu, delivering = await self._cpu(), self.gauge.deliver(self.records)
        self.rates[shown].append(1 / await self.efforts[shown].spend(delivering))
        if shown:
            self.cpu += sum((await self._cpu() - cpu).values())
            self.answers += self.browsers.answers()
        self.console.go_on()

    async def _cpu(self) -> Counter[int]:
        """The seconds of CPU time of the console and its sessions, by process."""
        sessions = text("SELECT pid FROM pg_stat_activity WHERE client_port = ANY (:ports)")
        async with self.engine.connect() as connection:
            rows = await connection.execute(sessions, {"ports": list(self.console.ports())})
            pids = [row.pid for row in rows]
        return Counter({0: self.console.cpu(), **{pid: process_cpu(pid) for pid in pids}})

    def figures(self, row: str) -> list[Figure]:
        name = "three browsers"
        ratios = [on / off for on, off in zip(self.rates[True], self.rates[False], strict=True)]
        on, off = self.efforts[True], self.efforts[False]
        in_all = (on.records / on.seconds) / (off.records / off.seconds)
        cpu = 100 * self.cpu / on.seconds / (os.cpu_count() or 1)
        figures = [
            Figure(
                row=row, contender="no console", what="rate", values=self.rates[False], unit="/s"
            ),
            Figure(row=row, contender=name, what="rate", values=self.rates[True], unit="/s"),
            Figure(
                row=row,
                contender=name,
                what="rate, ratio to none",
                values=ratios,
                at_least=DRAIN_BOUND,
            ),
            Figure(
                row=row,
                contender=name,
                what="rate of all turns, ratio",
                values=[in_all],
                at_least=DRAIN_BOUND,
            ),
            Figure(
                row=row,
                contender=name,
                what="CPU, of all cores",
                values=[cpu],
                unit="%",
            ),
        ]
        if self.answers:
            figures.append(
                Figure(row=row, contender=name, what="answer", values=self.answers, unit="ms")
            )
        return figures


async def refill(engine: AsyncEngine, count: int, kept: int) -> None:
    """Delete what was delivered in the last turn, and write as much anew."""
    gone = text(f"DELETE FROM {RECORDS} WHERE position > :kept AND status = 'published'")
    async with engine.begin() as connection:
        await connection.execute(gone, {"kept": kept})
        await add_records(connection, outbox, count, key_names("order", KEYS))
    await vacuum(engine, outbox)


async def measure_drain(url: str, row: str, publisher: Publisher, run: Run) -> list[Figure]:
    """Drain in turns, with browsers and without, in random order."""
    engine = create_async_engine(url)
    kept = await _begin_drain(engine, min(SPARE, run.drained))
    gauge = Gauge(publisher, (2 * run.drain_turns + 1) * run.drained)
    relay = OutboxRelay(outbox, engine, gauge, grace=timedelta())
    async with AsyncExitStack() as stack:
        console = await stack.enter_async_context(console_process(url, RECORDS))
        browsers = stack.enter_context(browsers_of(console.address))
        gc.freeze()  # as `postroom worker` does
        await stack.enter_async_context(running(relay, gauge))
        drain = Drain(engine, gauge, console, browsers, run.drained)
        for _ in range(run.drain_turns):
            for shown in random.sample((True, False), 2):
                await drain.turn(kept, shown=shown)
    await engine.dispose()
    return drain.figures(row)


async def _begin_drain(engine: AsyncEngine, spare: int) -> int:
    """Leave nothing but what is held back, and some spare records; return the last position."""
    async with engine.begin() as connection:
        await connection.execute(text(f"DELETE FROM {RECORDS} WHERE ready"))
        found = await connection.execute(text(f"SELECT coalesce(max(position), 0) FROM {RECORDS}"))
        await add_records(connection, outbox, spare, key_names("order", KEYS))
        return int(found.scalar_one())


async def on_large_outbox(url: str, broker: str, run: Run) -> list[Figure]:
    """Measure all parts on a large outbox."""
    engine = create_async_engine(url, pool_size=1)
    await create_tables(engine)
    figures: list[Figure] = []
    async with pages_of(url) as pages:
        await pages.plan()
        await fill(engine, run.sizes)
        turns = run.sizes.turns
        if "pages" in run.parts:
            figures += await time_pages(pages, engine, turns, "never analyzed")
        await vacuum(engine, outbox)
        if "pages" in run.parts:
            figures += await time_pages(pages, engine, turns, "analyzed")
        if "locks" in run.parts:
            figures += await count_lock_waits(url, pages, engine, turns)
    await engine.dispose()
    if "drain" in run.parts:
        row = "drain, large outbox"
        figures += await measure_drain(url, row, publisher_to(run.target, broker), run)
    return figures


async def on_small_outbox(url: str, broker: str, run: Run) -> list[Figure]:
    """Measure the drain rate on an outbox with the backlog alone."""
    engine = create_async_engine(url, pool_size=1)
    await create_tables(engine)
    await engine.dispose()
    return await measure_drain(url, "drain, backlog alone", publisher_to(run.target, broker), run)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS)
    parser.add_argument("--turns", type=int, default=7, help="answers of each page")
    parser.add_argument("--drain-turns", type=int, default=12, help="turns with browsers")
    parser.add_argument("--drained", type=int, default=75_000, help="records in each such turn")
    parser.add_argument(
        "--to", choices=TARGETS, default=TARGETS[0], help="where the relay delivers"
    )
    parser.add_argument("--quick", action="store_true", help="a hundredth of the records")
    options = parser.parse_args()
    part = 0.01 if options.quick else 1.0
    run = Run(
        parts=options.only,
        sizes=Sizes(part, options.turns),
        drain_turns=options.drain_turns,
        drained=max(3_000, int(options.drained * part)),
        target=options.to,
    )
    figures: list[Figure] = []
    with bench_vhost() as broker:
        with bench_database() as url:
            figures += asyncio.run(on_large_outbox(url, broker, run))
        if "drain" in run.parts:
            with bench_database() as url:
                figures += asyncio.run(on_small_outbox(url, broker, run))
    print(table(figures))
    sys.exit(any(figure.ok is False for figure in figures) and not options.quick)


if __name__ == "__main__":
    main()
