"""A burst on idle workers: all records of one transaction, after 20 single events."""

from collections.abc import Sequence

from benchmarks.contender import POSTROOM, RAW, Contender
from benchmarks.figures import Figure
from benchmarks.sizes import Sizes
from benchmarks.turns import Bench, Turn, rate_figures, take_turns

ROW = "burst on an idle relay"


async def measure(bench: Bench, sizes: Sizes, peers: Sequence[Contender]) -> list[Figure]:
    """Rates from the commit to the last arrival, as ratios to raw, and sequential reads."""

    async def turn(contender: Contender, check: bool) -> Turn:
        return await bench.burst(contender, int(sizes.burst * contender.share), check=check)

    turns = await take_turns([RAW, POSTROOM, *peers], sizes.turns, turn)
    reads = Figure(
        row=ROW,
        contender=POSTROOM.name,
        what="rows read by sequential scans",
        values=[turn.sequential_reads for turn in turns[POSTROOM.name]],
        unit="rows",
    )
    return [*rate_figures(ROW, turns, at_least={POSTROOM.name: 0.75}), reads]
