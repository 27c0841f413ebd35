"""The relay's clock, passed in so that tests can move it."""

import asyncio
import time
from datetime import timedelta


class Clock:
    """The clock of a relay. Tests use `postroom.testing.FakeClock` in its place."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def shift(self) -> timedelta:
        """Return the time to add to the database's clock."""
        return timedelta()

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait until the event is set. Set it after so many seconds at the latest."""
        timer = asyncio.get_running_loop().call_later(max(0.0, seconds), event.set)
        try:
            await event.wait()
        finally:
            timer.cancel()
