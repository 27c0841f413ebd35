"""Time, as the relay sees it: an argument, so that tests can move it."""

import asyncio
import time
from datetime import timedelta
from typing import Protocol


class Clock(Protocol):
    """What the relay asks of time."""

    def monotonic(self) -> float:
        """Give seconds that only ever grow."""

    def shift(self) -> timedelta:
        """Give what to add to the database's clock."""

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait until the event is set, but no longer than so many seconds."""


class SystemClock:
    """The time that it is."""

    def monotonic(self) -> float:
        return time.monotonic()

    def shift(self) -> timedelta:
        return timedelta()

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await event.wait()
        except TimeoutError:
            pass
