"""Turns of a contender: drain a backlog, or take a burst while it waits."""

import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.arrivals import (
    Arrivals,
    BenchQueue,
    Usage,
    bench_queue,
    check_complete,
    check_order,
)
from benchmarks.contender import POSTROOM, RAW, TEXTBOOK, Contender, outbox
from benchmarks.figures import Figure
from benchmarks.worker import Services, Worker, create_table, server_cpu, started

KEYS = 1000
SINGLE_EVENTS = 20
NO_USAGE = Usage(workers=0, rabbitmq=0, postgresql=0)
"""Of single events, of which nobody asks it: to find all processes takes 10 ms."""

PROCESSES = {"workers": "the process", "rabbitmq": "RabbitMQ", "postgresql": "PostgreSQL"}


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What one turn of a contender gave."""

    rate: float
    arrivals: Arrivals
    sequential_reads: int = 0

    @property
    def cpu(self) -> float:
        """Microseconds of the workers' CPU time per record."""
        return self.arrivals.cpu_per_record("workers")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A database with the tables of all contenders, and the queue that they deliver to.

    `check_all` has the messages of every turn checked: none missing, in order per key where the
    contender keeps it.
    """

    services: Services
    engine: AsyncEngine
    queue: BenchQueue
    check_all: bool

    async def drain(
        self,
        contender: Contender,
        records: int,
        *,
        keys: int = KEYS,
        check: bool = False,
        in_queue: float = inf,
        **settings: Any,
    ) -> Turn:
        """Have a contender deliver a backlog. The rate counts from the first arrivals on.

        `in_queue`: how many messages may be in the queue before it is emptied.
        """
        await self.empty(contender)
        if contender.table:
            await self._fill(contender, records, keys)
            await self.vacuum(contender.table, analyze=True)
        told = self._settings(contender, records, keys, settings)
        async with self.workers(contender, told) as workers:
            await workers[0].go()
            arrivals = await self.queue.watch(records, lambda: usage(workers), at_most=in_queue)
        if in_queue == inf:
            await self._finish(contender, records, check=check)
        return Turn(rate=arrivals.rate, arrivals=arrivals)

    async def burst(
        self,
        contender: Contender,
        records: int,
        *,
        check: bool = False,
        count: int = 1,
        **settings: Any,
    ) -> Turn:
        """Commit records while workers wait on an empty outbox. The rate counts from the commit."""
        await self.empty(contender)
        read_before = await self.sequential_reads(contender.table)
        told = self._settings(contender, records // count, KEYS, settings)
        async with self.workers(contender, told, count) as workers:
            if contender.table:
                await self._settle(contender, workers)
                start = await self._fill(contender, records, KEYS)
            else:
                start = time.perf_counter()
                for worker in workers:
                    await worker.go()
            arrivals = await self.queue.watch(records, lambda: usage(workers))
        if contender.table or count == 1:  # several processes without one send the same events
            await self._finish(contender, records, check=check)
        reads = await self.sequential_reads(contender.table) - read_before
        return Turn(rate=arrivals.rate_since(start), arrivals=arrivals, sequential_reads=reads)

    @asynccontextmanager
    async def workers(
        self, contender: Contender, settings: Mapping[str, Any], count: int = 1
    ) -> AsyncIterator[list[Worker]]:
        """Have so many processes of a contender, ready to go."""
        async with AsyncExitStack() as stack:
            each = [started(contender, self.services, settings) for _ in range(count)]
            yield [await stack.enter_async_context(worker) for worker in each]

    async def vacuum(self, table: str, *, analyze: bool = False) -> None:
        """Do what autovacuum does in time; a server may have it off."""
        alone = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        async with alone.connect() as connection:
            how = "VACUUM (ANALYZE)" if analyze else "VACUUM"
            await connection.execute(text(f"{how} {table}"))

    async def sequential_reads(self, table: str) -> int:
        """The rows of a table that sequential scans have read so far."""
        statement = text("SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = :table")
        async with self.engine.connect() as connection:
            return int((await connection.execute(statement, {"table": table})).scalar() or 0)

    def _settings(
        self, contender: Contender, records: int, keys: int, settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The settings of a contender's process; without an outbox it is told what to send."""
        told = {} if contender.table else {"records": records, "keys": keys}
        return {**told, **contender.settings, **settings}

    async def empty(self, contender: Contender) -> None:
        """Empty and vacuum the table of a contender, and the queue."""
        await self.queue.purge()
        if contender.table:
            async with self.engine.begin() as connection:
                await connection.execute(text(f"TRUNCATE {contender.table} RESTART IDENTITY"))
            await self.vacuum(contender.table)

    async def _fill(self, contender: Contender, records: int, keys: int) -> float:
        """Insert records and notify in one transaction; give the moment of the commit."""
        async with self.engine.begin() as connection:
            await contender.fill(connection, records, keys)
            if contender.notify:
                await connection.execute(text(contender.notify))
            return time.perf_counter()

    async def _settle(self, contender: Contender, workers: Sequence[Worker]) -> None:
        """Start on an empty outbox, deliver single events, and take them away again."""
        for worker in workers:
            await worker.go()
            await worker.says("running")
        for number in range(1, SINGLE_EVENTS + 1):
            await self._fill(contender, 1, KEYS)
            await self.queue.watch(number, lambda: NO_USAGE)
        await self.queue.purge()

    async def _finish(self, contender: Contender, records: int, *, check: bool) -> None:
        if check or self.check_all:
            taken = await self.queue.take(records)
            check_complete(taken, records)
            if contender.keeps_order:
                check_order(taken)


def usage(workers: Sequence[Worker]) -> Usage:
    """The CPU time so far of the workers and the servers."""
    return Usage(
        workers=sum(worker.cpu() for worker in workers),
        rabbitmq=server_cpu("beam.smp"),
        postgresql=server_cpu("postgres"),
    )


@asynccontextmanager
async def bench(
    services: Services, contenders: Sequence[Contender], *, check_all: bool
) -> AsyncIterator[Bench]:
    """Create the tables and the queue."""
    engine = create_async_engine(services.database.replace("postgresql:", "postgresql+asyncpg:"))
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
        for statement in TEXTBOOK.create.split(";"):
            await connection.execute(text(statement))
    for contender in contenders:
        if contender.creates_itself:
            await create_table(contender, services)
    async with bench_queue(services.broker) as queue:
        yield Bench(services=services, engine=engine, queue=queue, check_all=check_all)
    await engine.dispose()


async def take_turns(
    contenders: Sequence[Contender],
    turns: int,
    turn: Callable[[Contender, bool], Awaitable[Turn]],
) -> dict[str, list[Turn]]:
    """Let contenders take turns in random order; the messages of postroom's first are checked."""
    taken: dict[str, list[Turn]] = {contender.name: [] for contender in contenders}
    for number in range(turns):
        for contender in random.sample(contenders, len(contenders)):
            ours = contender.module == POSTROOM.module
            taken[contender.name].append(await turn(contender, number == 0 and ours))
    return taken


def ratios(turns: Mapping[str, Sequence[Turn]], name: str, other: str) -> list[float]:
    """The rates of a contender as ratios to those of another one, of the same turns."""
    return [ours.rate / theirs.rate for ours, theirs in zip(turns[name], turns[other], strict=True)]


def cpu_figure(
    row: str, name: str, turns: Sequence[Turn], of: str = "workers", at_most: float | None = None
) -> Figure:
    """The CPU time per record, of a contender's processes or of a server."""
    return Figure(
        row=row,
        contender=name,
        what=f"CPU of {PROCESSES[of]} per record",
        values=[turn.arrivals.cpu_per_record(of) for turn in turns],
        unit="µs",
        at_most=at_most,
    )


def rate_figures(
    row: str, turns: Mapping[str, Sequence[Turn]], *, at_least: Mapping[str, float]
) -> list[Figure]:
    """The rate of raw frames, and the rates of the others as ratios to it, with their bounds."""
    raw = [turn.rate for turn in turns[RAW.name]]
    return [
        Figure(row=row, contender=RAW.name, what="rate", values=raw, unit="/s"),
        *(
            Figure(
                row=row,
                contender=name,
                what="rate, ratio to raw",
                values=ratios(turns, name, RAW.name),
                at_least=at_least.get(name),
            )
            for name in turns
            if name != RAW.name
        ),
    ]
