"""Draining a backlog with default settings: the rate, and the CPU time of everybody."""

from collections.abc import Sequence

from benchmarks.contender import AIO_PIKA, POSTROOM, RAW, TEXTBOOK, Contender
from benchmarks.figures import Figure
from benchmarks.sizes import Sizes
from benchmarks.turns import Bench, Turn, cpu_figure, rate_figures, take_turns

CPU_ROW = "CPU while draining"
CPU_BOUND = 30
SHOWN = (RAW.name, POSTROOM.name)
SERVERS = ("rabbitmq", "postgresql")


async def measure(bench: Bench, sizes: Sizes, peers: Sequence[Contender]) -> list[Figure]:
    """Rates as ratios to raw, CPU time per record of the processes and of the servers."""

    async def turn(contender: Contender, check: bool) -> Turn:
        return await bench.drain(contender, int(sizes.drain * contender.share), check=check)

    contenders = [RAW, AIO_PIKA, TEXTBOOK, POSTROOM, *peers]
    turns = await take_turns(contenders, sizes.turns, turn)
    row = f"drain of {sizes.drain:,}"
    return [
        *rate_figures(row, turns, at_least={POSTROOM.name: 0.75}),
        cpu_figure(CPU_ROW, POSTROOM.name, turns[POSTROOM.name], at_most=CPU_BOUND),
        *(cpu_figure(CPU_ROW, each, turns[each]) for each in turns if each != POSTROOM.name),
        *(cpu_figure(CPU_ROW, each, turns[each], of) for each in SHOWN for of in SERVERS),
    ]
