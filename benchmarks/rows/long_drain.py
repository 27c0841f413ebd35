"""Draining a long backlog: with the default batch and with 500, and as fast at its end."""

from collections.abc import Sequence

from benchmarks.contender import POSTROOM, POSTROOM_500, RAW, Contender
from benchmarks.figures import Figure
from benchmarks.sizes import Sizes
from benchmarks.turns import Bench, Turn, rate_figures, take_turns

IN_QUEUE = 5_000
"""Messages in the queue at most: RabbitMQ pauses at every 16,384, a segment of its index."""
OURS = (POSTROOM.name, POSTROOM_500.name)


async def measure(bench: Bench, sizes: Sizes, peers: Sequence[Contender]) -> list[Figure]:
    """Rates as ratios to raw, and the rate of the last tenth beside that of the first."""

    async def turn(contender: Contender, check: bool) -> Turn:
        return await bench.drain(contender, sizes.long_drain, in_queue=IN_QUEUE)

    turns = await take_turns([RAW, POSTROOM, POSTROOM_500], sizes.long_turns, turn)
    row = f"drain of {sizes.long_drain:,}"
    return [
        *rate_figures(row, turns, at_least=dict.fromkeys(OURS, 0.7)),
        *(_flatness(row, name, taken) for name, taken in turns.items()),
    ]


def _flatness(row: str, name: str, turns: Sequence[Turn]) -> Figure:
    return Figure(
        row=row,
        contender=name,
        what="rate of the last tenth, ratio to the first",
        values=[turn.arrivals.last_tenth_to_first() for turn in turns],
        at_least=0.9 if name in OURS else None,
    )
