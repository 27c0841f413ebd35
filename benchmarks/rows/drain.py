"""Draining a backlog with default settings: the rate, and the CPU time of everybody."""

from collections.abc import Sequence

from benchmarks.contender import AIO_PIKA, POSTROOM, RAW, TEXTBOOK, Contender
from benchmarks.figures import Figure
from benchmarks.sizes import Sizes
from benchmarks.turns import Bench, Turn, rate_figures, take_turns

CPU_BOUND = 30
SHOWN = (RAW.name, POSTROOM.name)
SERVERS = {"rabbitmq": "RabbitMQ", "postgresql": "PostgreSQL"}


async def measure(bench: Bench, sizes: Sizes, peers: Sequence[Contender]) -> list[Figure]:
    """Rates as ratios to raw, CPU time per record of the processes and of the servers."""

    async def turn(contender: Contender, check: bool) -> Turn:
        return await bench.drain(contender, int(sizes.drain * contender.share), check=check)

    contenders = [RAW, AIO_PIKA, TEXTBOOK, POSTROOM, *peers]
    turns = await take_turns(contenders, sizes.turns, turn)
    row = f"drain of {sizes.drain:,}"
    return [
        *rate_figures(row, turns, at_least={POSTROOM.name: 0.75}),
        *(_cpu(name, taken) for name, taken in turns.items()),
        *(_server_cpu(name, turns[name], of) for name in SHOWN for of in SERVERS),
    ]


def _cpu(name: str, turns: Sequence[Turn]) -> Figure:
    return Figure(
        row="CPU while draining",
        contender=name,
        what="CPU of the process per record",
        values=[turn.cpu for turn in turns],
        unit="µs",
        at_most=CPU_BOUND if name == POSTROOM.name else None,
    )


def _server_cpu(name: str, turns: Sequence[Turn], of: str) -> Figure:
    return Figure(
        row="CPU while draining",
        contender=name,
        what=f"CPU of {SERVERS[of]} per record",
        values=[turn.arrivals.cpu_per_record(of) for turn in turns],
        unit="µs",
    )
