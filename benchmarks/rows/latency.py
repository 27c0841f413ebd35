"""From the commit to a consumer at 50 events a second: latency, and CPU time of the workers.

One program commits events of 1,000 keys, and consumes what arrives. The workers of all contenders
wait; slices of some seconds go to one of them each, in random order. Each slice begins with an
empty, vacuumed outbox: the server may have autovacuum off, which no user's has.
"direct" is to commit and then publish, which loses the event if the process dies in between.
"""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from statistics import median, quantiles

from benchmarks.application import DIRECT, Application, application
from benchmarks.contender import POSTROOM, TXOUTBOX, Contender
from benchmarks.figures import Figure
from benchmarks.sizes import Sizes
from benchmarks.turns import Bench
from benchmarks.worker import Worker

ROW = "latency at 50/s"
CPU_ROW = "CPU at 50/s"


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The latencies of a slice in milliseconds, in order; the worker's CPU time in percent."""

    latencies: Sequence[float]
    cpu: float

    @property
    def p50(self) -> float:
        return median(self.latencies)

    @property
    def p99(self) -> float:
        return quantiles(self.latencies, n=100, method="inclusive")[-1]


Slices = dict[str, list[Slice]]


async def measure(bench: Bench, sizes: Sizes, peers: Sequence[Contender]) -> list[Figure]:
    """Latencies of all, what postroom's are bound by, and CPU time."""
    contenders = [POSTROOM, *peers]
    by_name = {each.name: each for each in contenders}
    await bench.queue.purge()  # of what other rows have left
    slices: Slices = {name: [] for name in (DIRECT, *(each.name for each in contenders))}
    async with _running(bench, contenders) as workers, application(bench) as program:
        for _ in range(sizes.latency_slices):
            for name in random.sample(list(slices), len(slices)):
                if name in by_name:
                    await bench.empty(by_name[name])
                taken = await _slice(program, name, workers.get(name), sizes.latency_slice)
                slices[name].append(taken)
    return [*_latencies(slices), *_bounds(slices), *_cpu(slices)]


@asynccontextmanager
async def _running(
    bench: Bench, contenders: Sequence[Contender]
) -> AsyncIterator[dict[str, Worker]]:
    """Have a worker of each contender that waits for events."""
    async with AsyncExitStack() as stack:
        running: dict[str, Worker] = {}
        for contender in contenders:
            workers = await stack.enter_async_context(bench.workers(contender, contender.settings))
            running[contender.name] = workers[0]
            await workers[0].go()
            await workers[0].says("running")
        yield running


async def _slice(program: Application, name: str, worker: Worker | None, events: int) -> Slice:
    before = worker.cpu() if worker else 0.0
    latencies, seconds = await program.commit_events(name, events)
    used = (worker.cpu() if worker else 0.0) - before
    return Slice(latencies=[1e3 * each for each in latencies], cpu=100 * used / seconds)


def _latencies(slices: Slices) -> list[Figure]:
    return [
        Figure(
            row=ROW,
            contender=name,
            what=what,
            values=[getattr(each, what) for each in taken],
            unit="ms",
            at_most=3 if (name, what) == (POSTROOM.name, "p50") else None,
        )
        for what in ("p50", "p99")
        for name, taken in slices.items()
    ]


def _bounds(slices: Slices) -> list[Figure]:
    """What postroom's latency is bound by: direct publishing, txoutbox, and its own beginning."""
    compared = [("p50", DIRECT, 1.8), ("p50", TXOUTBOX.name, 1), ("p99", TXOUTBOX.name, 1)]
    figures = [
        Figure(
            row=ROW,
            contender=POSTROOM.name,
            what=f"{what}, ratio to {other}",
            values=_ratios(slices, what, other),
            at_most=bound,
        )
        for what, other, bound in compared
        if other in slices
    ]
    return [*figures, _flatness(slices[POSTROOM.name])]


def _ratios(slices: Slices, what: str, other: str) -> list[float]:
    pairs = zip(slices[POSTROOM.name], slices[other], strict=True)
    return [getattr(ours, what) / getattr(theirs, what) for ours, theirs in pairs]


def _flatness(slices: Sequence[Slice]) -> Figure:
    latencies = [each for part in slices for each in part.latencies]
    quarter = max(len(latencies) // 4, 1)
    return Figure(
        row=ROW,
        contender=POSTROOM.name,
        what="p50 of the last quarter, ratio to the first",
        values=[median(latencies[-quarter:]) / median(latencies[:quarter])],
        at_most=1.2,
    )


def _cpu(slices: Slices) -> list[Figure]:
    return [
        Figure(
            row=CPU_ROW,
            contender=name,
            what="CPU of the process",
            values=[each.cpu for each in taken],
            unit="%",
            at_most=7 if name == POSTROOM.name else None,
        )
        for name, taken in slices.items()
        if name != DIRECT
    ]
