"""Samples of the outbox for the overview and its charts, shared by all browsers.

A sample is taken when a page asks and the last one is old enough. Pages get the last one
meanwhile, unless it is far too old. The wait between two is a multiple of what the last two
took, up to half a minute, so that the console costs the database a small part of its time, however
large the outbox is and however many browsers are open.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from postroom.errors import error_text
from postroom.inspection import BlockedKey, FailureGroup, Inspector, Latency, Overview

logger = logging.getLogger("postroom.console")

INTERVAL: Final = 2.0
"""Seconds between two samples at least."""
WAIT_AFTER: Final = 10.0
"""Seconds after which a sample that should have been taken is waited for."""
PART: Final = 0.02
"""The part of the time in which samples may be taken."""
LONGEST: Final = 30.0
"""Seconds between two samples at most, whatever they cost."""
KEPT: Final = 600
"""How many points the charts remember."""
LISTED: Final = 5
"""How many failures and blocked keys the overview lists."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The outbox at one moment."""

    overview: Overview
    latency: Latency
    failures: tuple[FailureGroup, ...]
    """The largest groups."""
    blocked: tuple[BlockedKey, ...]
    """Those with the most waiting records."""


@dataclass(frozen=True, slots=True)
class Point:
    """What the charts remember of a sample. Times are in seconds."""

    at: datetime
    in_per_minute: float
    out_per_minute: float
    pending: float
    oldest: float
    p50: float | None
    p99: float | None


class Samples:
    """Takes samples when they are asked for, and remembers a point of each."""

    def __init__(self, inspector: Inspector, clock: Callable[[], float] = time.monotonic) -> None:
        self._inspector, self._clock = inspector, clock
        self._lock = asyncio.Lock()
        self._next = 0.0
        self._took = 0.0  # seconds, of the last sample
        self._changes = 0  # of the outbox, made in this console
        self._taking: asyncio.Task[None] | None = None
        self.last: Sample | None = None
        self.points: deque[Point] = deque(maxlen=KEPT)

    async def latest(self) -> Sample:
        """Return the last sample, and have a new one taken if it is time for that.

        Without a sample, or with one that is far too old, wait for the new one.
        """
        while (last := self.last) is None or self._clock() >= self._next + WAIT_AFTER:
            async with self._lock:
                if self.last is None or self._clock() >= self._next:
                    await self._take()
        if self._clock() >= self._next and not self._lock.locked():
            self._taking = asyncio.create_task(self._take_beside(), name="postroom sample")
            await asyncio.sleep(0)  # so that it has the lock before others ask
        return last

    def expire(self) -> None:
        """Have the next page wait for a new sample: an operator has changed something."""
        self.last, self._next = None, 0.0
        self._changes += 1

    async def _take_beside(self) -> None:
        """Take a sample that nobody waits for. If that fails, somebody will soon."""
        async with self._lock:
            try:
                await self._take()
            except Exception as error:
                logger.debug("postroom: no sample could be taken: %s", error_text(error))

    async def _take(self) -> None:
        began, changes, inspector = self._clock(), self._changes, self._inspector
        overview, latency, failures, blocked = await asyncio.gather(
            inspector.overview(),
            inspector.latency(),
            inspector.failures(),
            inspector.blocked_keys(limit=LISTED),
        )
        self.last = Sample(overview, latency, failures.groups[:LISTED], blocked.keys)
        self.points.append(_point(self.last))
        ended = self._clock()
        took, self._took = min(ended - began, self._took), ended - began  # one may have to connect
        if changes == self._changes:  # else it may show what was before the change
            self._next = ended + min(max(INTERVAL, took / PART), LONGEST)


def _point(sample: Sample) -> Point:
    overview, latency = sample.overview, sample.latency
    oldest = overview.oldest_pending
    return Point(
        at=overview.now,
        in_per_minute=overview.in_per_minute,
        out_per_minute=overview.out_per_minute,
        pending=overview.pending,
        oldest=0.0 if oldest is None else oldest.total_seconds(),
        p50=None if latency.p50 is None else latency.p50.total_seconds(),
        p99=None if latency.p99 is None else latency.p99.total_seconds(),
    )
