"""The comparison as JSON, and as the table that the docs show."""

import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.compare.compared import ALL, VARIANTS, pinned_versions
from benchmarks.compare.faults import Outcome
from benchmarks.compare.stage import Settings
from postroom import __version__


@dataclass(frozen=True, slots=True)
class Row:
    """A fault, the command that plays it, and what became of the events of each contender."""

    title: str
    command: str
    outcomes: Mapping[str, Outcome]


def write(path: Path, rows: Sequence[Row], settings: Settings) -> dict[str, Any]:
    """Write the rows to a file, in place of those with the same titles; give all of it."""
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"faults": {}}
    content |= {"machine": machine(), "versions": versions()}
    content |= {"events": settings.events, "keys": settings.keys}
    for row in rows:
        content["faults"][row.title] = {
            "date": time.strftime("%Y-%m-%d"),
            "command": row.command,
            "outcomes": {name: each.as_json() for name, each in row.outcomes.items()},
        }
    text = json.dumps(content, indent=1, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")
    return content


def machine() -> dict[str, Any]:
    """What the figures were made on."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "postgresql": _says("psql", "--version", word=2),
        "rabbitmq": _says("rabbitmqctl", "version", word=0),
    }


def versions() -> dict[str, str]:
    """The versions of the contenders."""
    pinned = {"postroom": __version__, **pinned_versions()}
    return {package: pinned[package] for each in ALL for package in each.packages}


def markdown(content: Mapping[str, Any]) -> str:
    """The table of what arrived: a contender in each line, a fault in each column."""
    return _table(content, str)


def recovery(content: Mapping[str, Any]) -> str:
    """The table of how many seconds after a fault the last event arrived."""
    return _table(content, lambda each: "" if each.seconds is None else f"{each.seconds:g}")


def _table(content: Mapping[str, Any], cell: Callable[[Outcome], str]) -> str:
    faults = content["faults"]
    played = {name for fault in faults.values() for name in fault["outcomes"]}
    names = [each.name for each in (*ALL, *VARIANTS) if each.name in played]
    lines = [["", *faults], ["---"] * (len(faults) + 1)]
    for name in names:
        outcomes = [fault["outcomes"].get(name) for fault in faults.values()]
        lines.append([name, *(cell(Outcome(**each)) if each else "" for each in outcomes)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _says(*command: str, word: int) -> str:
    """A word of what a program prints; "unknown" if it is not on this machine."""
    if shutil.which(command[0]) is None:
        return "unknown"
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return printed.split()[word]
