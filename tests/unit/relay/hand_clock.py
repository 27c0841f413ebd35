"""A clock that moves only when a test, or whoever waits by it, moves it."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from postroom.clock import Clock

START = 1000.0


class HandClock(Clock):
    """Time stands still until somebody waits. Then it jumps to the next thing that happens.

    Plan what happens with `at` and `after`. A planned action may be a bound method of a fake.
    """

    def __init__(self) -> None:
        self.now = START
        self._plan: list[tuple[float, int, Callable[[], object]]] = []
        self._planned = 0

    def monotonic(self) -> float:
        return self.now

    def shift(self) -> timedelta:
        return timedelta()

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        """Plan an action, so many seconds after the start."""
        self._planned += 1
        self._plan.append((START + seconds, self._planned, action))
        self._plan.sort(key=lambda each: each[:2])

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Plan an action, so many seconds from now."""
        self.at(self.now - START + seconds, action)

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Let time pass until the event is set or the seconds are over."""
        deadline = self.now + max(0.0, seconds)
        await let_tasks_run()
        while not event.is_set() and self.now < deadline:
            self._advance(deadline)
            await let_tasks_run()

    async def spend(self, seconds: float) -> None:
        """Let time pass."""
        await self.wait(asyncio.Event(), seconds)

    def _advance(self, deadline: float) -> None:
        """Move on to the deadline, or to the next planned action before it, and do that."""
        if not self._plan or self._plan[0][0] > deadline:
            self.now = deadline
            return
        moment, _, action = self._plan.pop(0)
        self.now = max(self.now, moment)
        action()


async def let_tasks_run() -> None:
    """Let other tasks go on until they wait for something."""
    for _ in range(10):
        await asyncio.sleep(0)
