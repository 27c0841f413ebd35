"""How benchmarks measure: sides take turns, so that the machine's moods hit all alike."""

import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median, quantiles

from tests.support.postgres import temporary_database
from tests.support.rabbitmq import temporary_vhost

Side = Callable[[], Awaitable[object]]


async def interleaved(sides: Sequence[Side], turns: int) -> list[float]:
    """Call every side once in a turn, in random order; give the median time of each."""
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(turns):
        for side in random.sample(range(len(sides)), len(sides)):
            start = time.perf_counter()
            await sides[side]()
            times[side].append(time.perf_counter() - start)
    return [median(each) for each in times]


async def timed(
    sides: Mapping[str, Side], turns: int, *, afterwards: Side | None = None
) -> dict[str, list[float]]:
    """Call every side once in a turn, in random order; give all times of each in milliseconds.

    The first turn does not count: it fills caches. `afterwards` is called after each side, and
    not timed.
    """
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(-1, turns):
        for name in random.sample(list(sides), len(sides)):
            start = time.perf_counter()
            await sides[name]()
            if turn >= 0:
                times[name].append(1000 * (time.perf_counter() - start))
            if afterwards is not None:
                await afterwards()
    return times


def ratio(values: Sequence[float]) -> str:
    """Write ratios, of two neighbours in time each, as their median and quartiles."""
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return f"{middle:.2f} × ({low:.2f}-{high:.2f})"


@contextmanager
def bench_database() -> Iterator[str]:
    """Create a database, give its URL for asyncpg, drop it."""
    with temporary_database("bench") as url:
        yield url.set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)


@contextmanager
def bench_vhost() -> Iterator[str]:
    """Create a vhost of RabbitMQ, give its URL, delete it."""
    with temporary_vhost() as url:
        yield url
