"""Plays the same faults with postroom and with others, and prints what arrived as a table.

Every contender has its default settings, processes, a database and a vhost of its own; all play
a fault at the same time. A whole run writes its rows to docs/explanation/comparison.json; rows
of another run with other names stay there. `--output` names another file.
"""

import argparse
import asyncio
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks.compare.compared import ALL, POSTROOM, Compared
from benchmarks.compare.faults import (
    Fault,
    Outcome,
    Patience,
    killed,
    outage,
    refused,
    two_workers,
    unroutable,
)
from benchmarks.compare.report import Row, markdown, write
from benchmarks.compare.stage import stage
from benchmarks.contender import PEERS_PYTHON, ROOT
from benchmarks.measure import bench_vhost

DOCUMENTED = ROOT / "docs" / "explanation" / "comparison.json"
FAULTS: dict[str, Fault] = {
    "killed": killed,
    "unroutable": unroutable,
    "refused": refused,
    "two-workers": two_workers,
    "outage": outage,
}
TITLES = {
    "killed": "killed after COMMIT",
    "unroutable": "no queue bound for 5 s",
    "refused": "first of each key refused",
    "two-workers": "two workers",
}
MORE_FOR_TWO = 10
"""Two workers get ten times as many events, so that both have some of each key."""


def title(fault: str, patience: Patience) -> str:
    """How the table calls a fault."""
    seconds = patience.outage
    length = f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"
    return TITLES.get(fault, f"outage of {length}")


async def play(
    fault: str, compared: Compared, broker: str, options: argparse.Namespace, logs: Path
) -> Outcome:
    """Play a fault with a contender."""
    events = options.events * (MORE_FOR_TWO if fault == "two-workers" else 1)
    if fault == "two-workers":
        compared = replace(compared, queue="")  # a task hands its event on: it has run
    log = logs / f"{fault}-{compared.application}.log"
    async with stage(compared, broker, log, (events, options.keys)) as played:
        return await FAULTS[fault](played, options.patience)


async def compare(options: argparse.Namespace, chosen: Sequence[Compared]) -> list[Row]:
    """Play the chosen faults, each with all contenders at once."""
    logs = Path(tempfile.mkdtemp(prefix="compare-"))
    print(f"What the contenders log: {logs}", file=sys.stderr)
    rows: list[Row] = []
    async with AsyncExitStack() as vhosts:
        brokers = [await _vhost(vhosts) for _ in chosen]
        for fault in options.only or FAULTS:
            start = time.monotonic()
            print(f"{fault} ... ", end="", file=sys.stderr, flush=True)
            pairs = zip(chosen, brokers, strict=True)
            async with asyncio.TaskGroup() as group:
                played = {
                    each.name: group.create_task(play(fault, each, broker, options, logs))
                    for each, broker in pairs
                }
            outcomes = {name: task.result() for name, task in played.items()}
            rows.append(Row(title(fault, options.patience), command(fault, options), outcomes))
            print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    return rows


async def _vhost(vhosts: AsyncExitStack) -> str:
    made = bench_vhost()
    vhosts.push_async_callback(asyncio.to_thread, made.__exit__, None, None, None)
    return await asyncio.to_thread(made.__enter__)


def command(fault: str, options: argparse.Namespace) -> str:
    """The command that plays a fault again."""
    words = ["--only", fault]
    if fault == "outage":
        words += ["--outage", f"{options.patience.outage:g}"]
        words += ["--after-outage", f"{options.patience.after_outage:g}"]
    return f'make compare ARGS="{shlex.join(words)}"'


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    names = [each.name for each in ALL]
    parser.add_argument("--only", nargs="+", choices=FAULTS, metavar="FAULT")
    parser.add_argument("--with", nargs="+", choices=names, dest="names", metavar="NAME")
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--keys", type=int, default=10)
    parser.add_argument("--outage", type=float, default=180.0, help="seconds")
    parser.add_argument("--after-outage", type=float, default=120.0, help="seconds to wait")
    parser.add_argument("--full-for", type=float, default=0.4, help="seconds")
    parser.add_argument("--wait", type=float, default=45.0, help="seconds to wait after others")
    parser.add_argument("--output", type=Path, help="instead of docs/explanation/comparison.json")
    options = parser.parse_args()
    options.patience = Patience(
        outage=options.outage,
        full_for=options.full_for,
        after_outage=options.after_outage,
        otherwise=options.wait,
    )
    return options


def main() -> None:
    options = arguments()
    chosen = [each for each in ALL if not options.names or each.name in options.names]
    if not PEERS_PYTHON.exists() and chosen != [POSTROOM]:
        sys.exit("The other contenders are not installed: `make bench-peers` does it.")
    rows = asyncio.run(compare(options, chosen))
    partial = options.names or (options.events, options.keys, options.full_for) != (100, 10, 0.4)
    folder = Path(tempfile.gettempdir())
    output = options.output or (folder / "comparison.json" if partial else DOCUMENTED)
    print(markdown(write(output, rows, options.events, options.keys)))


if __name__ == "__main__":
    main()
