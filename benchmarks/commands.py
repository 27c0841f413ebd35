"""How long an operator waits for a command: a process from its start to its end.

On a busy machine the time of the processor, CPU, says more than the wait.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.figures import Figure

SCRIPT = Path(sys.executable).with_name("postroom")
LIBRARIES = "import asyncpg, sqlalchemy.dialects.postgresql.asyncpg, sqlalchemy.ext.asyncio, typer"
HELP_BOUND, BOUND = 400.0, 500.0
"""Milliseconds for the help, and for every other command."""

COMMANDS: Mapping[str, Sequence[str]] = {
    "postroom --help": ("--help",),
    "postroom status": ("status",),
    "postroom list": ("list",),
    "postroom list --state failed": ("list", "--state", "failed"),
    "postroom show": ("show", "{position}"),
    "postroom why": ("why", "order/bad-3"),
    "postroom failures": ("failures",),
    "postroom blocked": ("blocked",),
    "postroom workers": ("workers",),
    "postroom events": ("events",),
    "postroom doctor": ("doctor",),
    "postroom schema check": ("schema", "check"),
}


def time_commands(url: str, table: str, position: int, turns: int) -> list[Figure]:
    """Time every command in random order, and the import of the libraries that each needs."""
    variables = {**os.environ, "DATABASE_URL": url, "OUTBOX_TABLE": table}
    calls = {
        name: [str(SCRIPT), *(word.format(position=position) for word in words)]
        for name, words in COMMANDS.items()
    }
    calls["Python, and the libraries alone"] = [sys.executable, "-c", LIBRARIES]
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for turn in range(-1, turns):
        for name in random.sample(list(calls), len(calls)):
            taken = _run(calls[name], variables)
            if turn >= 0:
                times[name].append(taken)
    figures = []
    for name, each in times.items():
        bound = BOUND if name in COMMANDS else None
        bound = HELP_BOUND if name == "postroom --help" else bound
        waited, worked = zip(*each, strict=True)
        figures += [
            Figure(
                row="command", contender=name, what=what, values=values, unit="ms", at_most=at_most
            )
            for what, values, at_most in (("wait", waited, bound), ("CPU", worked, None))
        ]
    return figures


def _run(words: Sequence[str], variables: Mapping[str, str]) -> tuple[float, float]:
    """Run a command; return the milliseconds that it took, and those of a processor."""
    start = time.perf_counter()
    process = subprocess.Popen(words, env=variables, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    waited = time.perf_counter() - start
    return 1000 * waited, 1000 * (usage.ru_utime + usage.ru_stime)
