"""One, two and four workers on one outbox: more of them are not slower, and the order holds.

Raw frames by as many connections show what RabbitMQ needs for these alone.
"""

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.contender import POSTROOM, RAW, Contender
from benchmarks.contenders.raw import IN_FLIGHT
from benchmarks.figures import Figure
from benchmarks.sizes import Sizes
from benchmarks.turns import PROCESSES, Bench, Turn, cpu_figure, rate_figures, ratios, take_turns

NOISE = 0.05
"""Two medians of the same code differ by as much."""


async def measure(bench: Bench, sizes: Sizes, peers: Sequence[Contender]) -> list[Figure]:
    """Rates from the commit on, as ratios to raw; the most workers as a ratio to one."""
    counts = {_name(count): count for count in sizes.worker_counts}

    async def turn(contender: Contender, check: bool) -> Turn:
        count = counts.get(contender.name, 1)
        return await bench.burst(contender, sizes.workers_drain, check=check, count=count)

    row, (one, *_, most) = f"workers on {sizes.workers_drain:,}", counts
    workers = [replace(POSTROOM, name=name) for name in counts]
    many = sizes.worker_counts[-1]
    raw = replace(RAW, name=f"raw, {many} processes", settings={"in_flight": IN_FLIGHT // many})
    counts[raw.name] = many
    turns = await take_turns([RAW, raw, *workers], sizes.long_turns, turn)
    return [
        *rate_figures(row, turns, at_least={}),
        Figure(
            row=row,
            contender=most,
            what=f"rate, ratio to {one}",
            values=ratios(turns, most, one),
            at_least=1 - NOISE,
        ),
        *(cpu_figure(row, name, turns[name], of) for name in turns for of in PROCESSES),
    ]


def _name(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"
