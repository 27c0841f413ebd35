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

from benchmarks.compare.compared import ALL, VARIANTS, Compared
from benchmarks.compare.faults import (
    Fault,
    Outcome,
    killed,
    outage,
    refused,
    two_workers,
    unroutable,
)
from benchmarks.compare.report import Row, markdown, write
from benchmarks.compare.stage import Settings, stage
from benchmarks.contender import ROOT
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
NORMAL = Settings()
MORE_FOR_TWO = 10
"""Two workers get ten times as many events, so that both have some of each key."""


def title(fault: str, settings: Settings) -> str:
    """How the table calls a fault."""
    seconds = settings.outage
    length = f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"
    return TITLES.get(fault, f"outage of {length}")


async def play(
    fault: str, compared: Compared, broker: str, settings: Settings, logs: Path
) -> Outcome:
    """Play a fault with a contender."""
    if fault == "two-workers":
        settings = replace(settings, events=settings.events * MORE_FOR_TWO)
        compared = replace(compared, queue="")  # a task hands its event on: it has run
    log = logs / f"{fault}-{compared.application}.log"
    async with stage(compared, broker, log, settings) as played:
        return await FAULTS[fault](played)


async def compare(
    faults: Sequence[str], chosen: Sequence[Compared], settings: Settings
) -> list[Row]:
    """Play faults, each with all contenders at once."""
    logs = Path(tempfile.mkdtemp(prefix="compare-"))
    print(f"What the contenders log: {logs}", file=sys.stderr)
    rows: list[Row] = []
    async with AsyncExitStack() as vhosts:
        brokers = [await _vhost(vhosts) for _ in chosen]
        for fault in faults:
            start = time.monotonic()
            print(f"{fault} ... ", end="", file=sys.stderr, flush=True)
            async with asyncio.TaskGroup() as group:
                played = {
                    each.name: group.create_task(play(fault, each, broker, settings, logs))
                    for each, broker in zip(chosen, brokers, strict=True)
                }
            outcomes = {name: task.result() for name, task in played.items()}
            again = command(fault, chosen, settings)
            rows.append(Row(title(fault, settings), again, outcomes))
            print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    return rows


async def _vhost(vhosts: AsyncExitStack) -> str:
    made = bench_vhost()
    vhosts.push_async_callback(asyncio.to_thread, made.__exit__, None, None, None)
    return await asyncio.to_thread(made.__enter__)


def command(fault: str, chosen: Sequence[Compared], settings: Settings) -> str:
    """The command that plays a fault again."""
    words = ["--only", fault]
    if tuple(chosen) != ALL:
        words += ["--with", *(each.name for each in chosen)]
    if settings.full_for != NORMAL.full_for:
        words += ["--full-for", f"{settings.full_for:g}"]
    if fault == "outage":
        words += ["--outage", f"{settings.outage:g}"]
        words += ["--after-outage", f"{settings.after_outage:g}"]
        words += ["--cold"] * settings.cold
    return f'make compare ARGS="{shlex.join(words)}"'


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    defaults = [each.name for each in ALL]
    names = [*defaults, *(each.name for each in VARIANTS)]
    parser.add_argument("--only", nargs="+", choices=FAULTS, metavar="FAULT", default=[*FAULTS])
    parser.add_argument("--with", nargs="+", choices=names, dest="names", default=defaults)
    parser.add_argument("--events", type=int, default=NORMAL.events)
    parser.add_argument("--keys", type=int, default=NORMAL.keys)
    parser.add_argument("--outage", type=float, default=NORMAL.outage, help="seconds")
    parser.add_argument("--cold", action="store_true", help="nothing delivered before the outage")
    parser.add_argument("--full-for", type=float, default=NORMAL.full_for, help="seconds")
    parser.add_argument("--after-outage", type=float, default=NORMAL.after_outage)
    parser.add_argument("--output", type=Path, help="instead of docs/explanation/comparison.json")
    return parser.parse_args()


def output_for(chosen: Sequence[Compared], settings: Settings) -> Path:
    """The documented file, for outages of any length; a new one for what is varied otherwise."""
    usual = replace(settings, outage=NORMAL.outage, after_outage=NORMAL.after_outage) == NORMAL
    if usual and tuple(chosen) == ALL:
        return DOCUMENTED
    return Path(tempfile.mkdtemp(prefix="compared-")) / "comparison.json"


def main() -> None:
    options = arguments()
    chosen = [each for each in (*ALL, *VARIANTS) if each.name in options.names]
    if missing := [each.name for each in chosen if not Path(each.python).exists()]:
        sys.exit(f"Not installed: {', '.join(missing)}. `make bench-peers` installs them.")
    settings = Settings(
        events=options.events,
        keys=options.keys,
        outage=options.outage,
        cold=options.cold,
        full_for=options.full_for,
        after_outage=options.after_outage,
    )
    rows = asyncio.run(compare(options.only, chosen, settings))
    output = options.output or output_for(chosen, settings)
    print(markdown(write(output, rows, settings)))
    print(f"written: {output}")


if __name__ == "__main__":
    main()
