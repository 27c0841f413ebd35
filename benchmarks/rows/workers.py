"""One, two and four workers on one outbox: more of them are not slower, and the order holds."""

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.contender import POSTROOM, RAW, Contender
from benchmarks.figures import Figure
from benchmarks.sizes import Sizes
from benchmarks.turns import Bench, Turn, rate_figures, ratios, take_turns

NOISE = 0.05
"""Two medians of the same code differ by as much."""


async def measure(bench: Bench, sizes: Sizes, peers: Sequence[Contender]) -> list[Figure]:
    """Rates from the commit on, as ratios to raw; the most workers as a ratio to one."""
    counts = {_name(count): count for count in sizes.worker_counts}

    async def turn(contender: Contender, check: bool) -> Turn:
        count = counts.get(contender.name, 1)
        return await bench.burst(contender, sizes.workers_drain, check=check, count=count)

    contenders = [RAW, *(replace(POSTROOM, name=name) for name in counts)]
    turns = await take_turns(contenders, sizes.long_turns, turn)
    row, one, most = (
        f"workers on {sizes.workers_drain:,}",
        *(list(counts)[each] for each in (0, -1)),
    )
    return [
        *rate_figures(row, turns, at_least={}),
        Figure(
            row=row,
            contender=most,
            what=f"rate, ratio to {one}",
            values=ratios(turns, most, one),
            at_least=1 - NOISE,
        ),
    ]


def _name(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"
