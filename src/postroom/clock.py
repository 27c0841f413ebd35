"""The relay's clock: an argument, so that tests can move it."""

import asyncio
import time
from datetime import timedelta


class Clock:
    """The time that it is."""

    def monotonic(self) -> float:
        """Return seconds that only ever grow."""
        return time.monotonic()

    def shift(self) -> timedelta:
        """Return what to add to the database's clock."""
        return timedelta()

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait until the event is set; it may be set here after so many seconds."""
        timer = asyncio.get_running_loop().call_later(max(0.0, seconds), event.set)
        try:
            await event.wait()
        finally:
            timer.cancel()
