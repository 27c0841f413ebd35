"""Measures postroom beside raw frames, other ways and other libraries, and prints the table.

Contenders take turns in random order, each in a process of its own, watched from outside. A ratio
is that of two neighbours in time.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from benchmarks.contender import ROOT, Contender, peers
from benchmarks.figures import Figure, table
from benchmarks.measure import bench_database, bench_vhost
from benchmarks.rows import burst, claim, drain, hot_key, latency, long_drain, workers
from benchmarks.sizes import FULL, QUICK, Sizes
from benchmarks.turns import Bench, bench
from benchmarks.worker import Services

Row = Callable[[Bench, Sizes, Sequence[Contender]], Awaitable[list[Figure]]]

ROWS: dict[str, Row] = {
    "burst": burst.measure,
    "latency": latency.measure,
    "drain": drain.measure,
    "long-drain": long_drain.measure,
    "hot-key": hot_key.measure,
    "workers": workers.measure,
    "claim": claim.measure,
}


async def run(
    services: Services, names: Sequence[str], sizes: Sizes, others: Sequence[Contender]
) -> list[Figure]:
    """Measure some rows; say which one is being measured, and how long it took."""
    figures: list[Figure] = []
    async with bench(services, others, check_all=sizes is QUICK) as made:
        for name in names:
            start = time.monotonic()
            print(f"{name} ... ", end="", file=sys.stderr, flush=True)
            figures += await ROWS[name](made, sizes, others)
            print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--quick", action="store_true", help="little of everything, without peers")
    parser.add_argument("--alone", action="store_true", help="without txoutbox and faststream-outbox")
    parser.add_argument("--turns", type=int, help="of each contender, instead of the row's own")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "explanation")
    options = parser.parse_args()
    sizes = QUICK if options.quick else FULL
    if options.turns:
        sizes = sizes.with_turns(options.turns)
    others = [] if options.quick or options.alone else peers()
    if not others and not options.quick and not options.alone:
        print("txoutbox and faststream-outbox are not installed: run `make bench-peers` first")
    with bench_database() as database, bench_vhost() as broker:
        services = Services(database=database.replace("+asyncpg", ""), broker=broker)
        figures = asyncio.run(run(services, options.only, sizes, others))
    print(table(figures))


if __name__ == "__main__":
    main()
