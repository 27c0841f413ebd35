"""How the process of a contender talks to the harness: lines on standard input and output.

The process writes "ready" when everything is imported, begins when it reads "go", writes "running"
when it is connected and waits for work, and stops at the end of its input.
"""

import asyncio
import json
import sys
from dataclasses import dataclass, field
from typing import Any

EXCHANGE = QUEUE = "bench"
ROUTING_KEY = "OrderPlaced"


@dataclass(frozen=True, kw_only=True)
class Task:
    """The services and the table of a contender; `settings` are its own."""

    database: str
    broker: str
    table: str
    settings: dict[str, Any] = field(default_factory=dict)


def read_task() -> Task:
    """The task that the harness gave on the command line."""
    return Task(**json.loads(sys.argv[1]))


async def go() -> None:
    """Tell the harness that this process is ready, and wait for its "go"."""
    say("ready")
    await line()


async def run_until_stopped() -> None:
    """Tell the harness that the contender waits for work, and wait for the end of the input."""
    say("running")
    while await line():
        pass


def say(word: str) -> None:
    print(word, flush=True)


async def line() -> str:
    """The next line of the input, empty at its end."""
    return await asyncio.to_thread(sys.stdin.readline)
