"""Time that moves when a test says so, for the relay and for the database."""

import asyncio
from datetime import timedelta

from postroom.clock import Clock


class SteppedClock(Clock):
    """A `Clock` that stands still until a test moves it on, to where the first sleeper wakes."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._begun = self._now
        self._moved = asyncio.Event()
        self._wake_up_calls: list[float] = []

    @property
    def sleepers(self) -> int:
        """How many wait for time to pass."""
        return sum(1 for until in self._wake_up_calls if until > self._now)

    def monotonic(self) -> float:
        return self._now

    def shift(self) -> timedelta:
        return timedelta(seconds=self._now - self._begun)

    def skip(self) -> None:
        """Go on to where the first sleeper wakes."""
        self.advance(min(self._wake_up_calls) - self._now)

    def advance(self, seconds: float) -> None:
        self._now += seconds
        self._moved.set()
        self._moved = asyncio.Event()

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        until = self._now + seconds
        self._wake_up_calls.append(until)
        try:
            while self._now < until and not event.is_set():
                await _first_of(event, self._moved)
        finally:
            self._wake_up_calls.remove(until)


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
