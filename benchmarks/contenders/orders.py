"""An application that commits orders with their events, driven by lines on standard input.

- `commit FIRST COUNT`: each event in a transaction of its own, as requests would do it, in order
- `die FIRST COUNT`: all events in one transaction; SIGKILL as soon as COMMIT has returned

What follows a commit (publishing, for those without an outbox) does not hold up the next request.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.contenders.control import Task, go, line, say
from benchmarks.contenders.messages import NOTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Event number `number`, of a key."""

    number: int
    key: str

    @property
    def payload(self) -> dict[str, Any]:
        """About 200 bytes of JSON."""
        return {"order_id": self.key, "customer": "ann@example.com", "total": self.number} | {
            "note": NOTE
        }


Place = Callable[[Sequence[Event], Callable[[], None]], Awaitable[None]]
"""Commits orders and their events in one transaction, calls the function, then does the rest."""

CREATE_ORDERS = "CREATE TABLE orders (number integer PRIMARY KEY)"
INSERT_ORDER = "INSERT INTO orders (number) VALUES ({})"


def events(first: int, count: int, keys: int) -> list[Event]:
    """Events of so many keys in turn."""
    return [Event(number=n, key=f"order-{n % keys}") for n in range(first, first + count)]


async def serve(task: Task, place: Place) -> None:
    """Do what the harness says, until the end of the input."""
    await go()
    say("running")
    following: set[asyncio.Task[None]] = set()
    while words := (await line()).split():
        what, first, count = words[0], int(words[1]), int(words[2])
        chosen = events(first, count, task.settings["keys"])
        if what == "die":
            await place(chosen, kill_this_process)
        for event in chosen:
            following.add(await committed(place, event))
        say("committed")


async def committed(place: Place, event: Event) -> asyncio.Task[None]:
    """Begin a request and wait until it has committed; give what it goes on doing."""
    commit = asyncio.Event()
    request = asyncio.create_task(reported(place([event], commit.set), event))
    waiting = asyncio.create_task(commit.wait())
    await asyncio.wait([request, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    return request


async def reported(request: Awaitable[None], event: Event) -> None:
    """Write the error of a request to standard error, as a server writes it to its log."""
    try:
        await request
    except Exception as error:  # a server answers 500 and goes on
        print(f"event {event.number}: {error!r}", file=sys.stderr, flush=True)


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
