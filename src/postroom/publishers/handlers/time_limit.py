"""The time limit of a handler. The time in which postroom writes does not count."""

import asyncio
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

CHECK_PAUSED_EVERY = 0.1
"""Seconds at least between two looks at a limit that is paused."""


class TimeLimit:
    """Ends one piece of work that takes too long; None never does."""

    def __init__(self, limit: timedelta | None) -> None:
        self._limit = limit
        self._begun = 0.0
        self._not_counted = 0.0
        self._paused_at: float | None = None
        self._check: asyncio.TimerHandle | None = None

    async def apply(self, work: Coroutine[Any, Any, None]) -> None:
        """Await the work. Raises TimeoutError if it takes longer than the limit."""
        self._begun = time.monotonic()
        try:
            async with asyncio.timeout(None) as timer:
                self._check_later(timer, self._left())
                await work
        except TimeoutError as error:
            if timer.expired():
                raise TimeoutError(f"took longer than {self._limit}") from error
            raise
        finally:
            if self._check is not None:
                self._check.cancel()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time that the block takes, in whichever thread it runs."""
        self._paused_at = time.monotonic()
        try:
            yield
        finally:
            self._not_counted += time.monotonic() - self._paused_at
            self._paused_at = None

    def _left(self) -> float | None:
        if self._limit is None:
            return None
        until = time.monotonic() if self._paused_at is None else self._paused_at
        return self._limit.total_seconds() - (until - self._begun - self._not_counted)

    def _check_later(self, timer: asyncio.Timeout, seconds: float | None) -> None:
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._check = loop.call_later(seconds, self._end_if_over, timer)

    def _end_if_over(self, timer: asyncio.Timeout) -> None:
        left = self._left()
        if self._paused_at is not None:
            self._check_later(timer, max(CHECK_PAUSED_EVERY, left or 0))
        elif left is not None and left > 0:
            self._check_later(timer, left)
        else:
            timer.reschedule(asyncio.get_running_loop().time())
