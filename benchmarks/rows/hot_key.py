"""One hot key in strict order: nothing of it may be sent side by side.

Raw frames, one after the other, are the floor: RabbitMQ's answers, and an event loop that waits.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.contender import POSTROOM, RAW_ONE_BY_ONE, TXOUTBOX, Contender
from benchmarks.figures import Figure
from benchmarks.sizes import Sizes
from benchmarks.turns import Bench, Turn, ratios, take_turns

ROW = "one hot key"


async def measure(bench: Bench, sizes: Sizes, peers: Sequence[Contender]) -> list[Figure]:
    """Rate and CPU time per record, and the ratios to raw and to txoutbox, if it is installed."""

    async def turn(contender: Contender, check: bool) -> Turn:
        return await bench.drain(contender, sizes.hot_key, keys=1, check=check)

    contenders = [RAW_ONE_BY_ONE, POSTROOM, *(peer for peer in peers if peer is TXOUTBOX)]
    turns = await take_turns(contenders, sizes.hot_turns, turn)
    figures = [figure for name, taken in turns.items() for figure in _figures(name, taken)]
    figures.append(_compared(turns, RAW_ONE_BY_ONE.name))
    if TXOUTBOX.name in turns:
        figures.append(_compared(turns, TXOUTBOX.name, at_least=2))
    return figures


def _figures(name: str, turns: Sequence[Turn]) -> list[Figure]:
    figure = partial(Figure, row=ROW, contender=name)
    rates, cpu = [turn.rate for turn in turns], [turn.cpu for turn in turns]
    return [
        figure(what="rate", values=rates, unit="/s"),
        figure(what="CPU of the process per record", values=cpu, unit="µs"),
    ]


def _compared(
    turns: Mapping[str, Sequence[Turn]], other: str, at_least: float | None = None
) -> Figure:
    return Figure(
        row=ROW,
        contender=POSTROOM.name,
        what=f"rate, ratio to {other}",
        values=ratios(turns, POSTROOM.name, other),
        at_least=at_least,
    )
