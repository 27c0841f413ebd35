"""Measures postroom beside raw frames, other ways and other libraries, and prints the table.

Contenders take turns in random order, each in a process of its own, watched from outside. A ratio
is that of two neighbours in time. A run of all rows writes performance.json and performance.svg to
docs/explanation; others write them to a new temporary folder. `--output` names another one.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.chart import chart
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
    services: Services, rows: Sequence[str], sizes: Sizes, others: Sequence[Contender], quick: bool
) -> list[Figure]:
    """Measure some rows; say which one is being measured, and how long it took."""
    figures: list[Figure] = []
    async with bench(services, others, check_all=quick) as made:
        for row in rows:
            start = time.monotonic()
            print(f"{row} ... ", end="", file=sys.stderr, flush=True)
            figures += await ROWS[row](made, sizes, others)
            print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    return figures


def write(folder: Path, figures: Sequence[Figure]) -> None:
    """Write the figures as JSON, and their chart."""
    machine = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }
    content = {"machine": machine, "figures": [figure.as_json() for figure in figures]}
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (folder / "performance.json").write_text(f"{text}\n", encoding="utf-8")
    (folder / "performance.svg").write_text(chart(figures), encoding="utf-8")
    print(f"written: {folder}/performance.json and performance.svg")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=ROWS, metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--quick", action="store_true", help="tiny sizes, without bounds and peers")
    parser.add_argument("--alone", action="store_true", help="without peers")
    parser.add_argument("--turns", type=int, help="of each contender, instead of the row's own")
    parser.add_argument("--output", type=Path, help="folder for performance.json and .svg")
    return parser.parse_args()


def choose(options: argparse.Namespace) -> tuple[Sizes, list[Contender]]:
    """The sizes and the peers of a run."""
    sizes = QUICK if options.quick else FULL
    others = [] if options.quick or options.alone else peers()
    if not others and not options.quick and not options.alone:
        print("txoutbox and faststream-outbox are not installed: `make bench-peers` does it.")
    return sizes.with_turns(options.turns) if options.turns else sizes, others


def main() -> None:
    options = arguments()
    sizes, others = choose(options)
    with bench_database() as database, bench_vhost() as broker:
        services = Services(database=database.replace("+asyncpg", ""), broker=broker)
        rows = options.only or list(ROWS)
        figures = asyncio.run(run(services, rows, sizes, others, options.quick))
    if options.quick:  # such sizes say nothing about speed
        figures = [replace(figure, at_least=None, at_most=None) for figure in figures]
    print(table(figures))
    whole = not (options.quick or options.only or options.alone or options.turns)
    documented = ROOT / "docs" / "explanation" if whole else None
    write(options.output or documented or Path(tempfile.mkdtemp(prefix="bench-")), figures)


if __name__ == "__main__":
    main()
