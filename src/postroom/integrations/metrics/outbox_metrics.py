"""What is in an outbox, read from its database beside the scrapes."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.clock import Clock
from postroom.errors import error_text
from postroom.inspection import Inspector, Overview, TypeCounts, WorkerState
from postroom.integrations.metrics.names import Page
from postroom.integrations.metrics.relay_metrics import EventTypes
from postroom.outbox import Outbox

logger = logging.getLogger("postroom.metrics")

READ_EVERY: Final = 10.0
"""Seconds between two readings at least."""
READ_SHARE: Final = 0.05
"""The part of the time that may be spent on reading: a slow reading is made less often ..."""
LONGEST_PAUSE: Final = 60.0
"""... but after so many seconds at the latest."""
WANTED_FOR: Final = 300.0
"""Seconds after a scrape, or the start, in which it goes on reading."""
MAX_AGE: Final = 120.0
"""Seconds after which values are left out: better none than wrong ones."""


class OutboxMetrics:
    """Reads an outbox regularly; `write` adds what was read last, in the thread of a scrape."""

    def __init__(
        self,
        outbox: Outbox,
        engine: AsyncEngine,
        types: EventTypes,
        clock: Clock | None = None,
    ) -> None:
        self._inspector = Inspector(outbox, engine)
        self._types = types
        self._clock = clock or Clock()
        self._last: tuple[Overview, float, float] | None = None
        """What was read last, when, and how many seconds that took."""
        self._labels: tuple[str, ...] = ()
        """The event types that had pending or failed records: they go on with 0."""
        self._asked_at = self._clock.monotonic()
        self._failing = False

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Read regularly for as long as the block lasts."""
        task = asyncio.create_task(self._read_regularly(), name="postroom metrics")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _read_regularly(self) -> None:
        while True:
            began = self._clock.monotonic()
            if began - self._asked_at < WANTED_FOR:
                await self._read()
            pause = (self._clock.monotonic() - began) / READ_SHARE
            pause = min(LONGEST_PAUSE, max(READ_EVERY, pause))
            await self._clock.wait(asyncio.Event(), pause)

    async def _read(self) -> None:
        """Read once. If that fails, what was read before is kept until it is too old."""
        began = self._clock.monotonic()
        try:
            overview = await self._inspector.overview()
        except Exception as error:  # metrics are there to be read in an outage, too
            if not self._failing:
                logger.warning("postroom: no metrics of the outbox: %s", error_text(error))
            self._failing = True
        else:
            ended = self._clock.monotonic()
            self._last, self._failing = (overview, ended, ended - began), False

    def write(self, page: Page, outbox: str) -> None:
        """Add what was read last to the metrics of a scrape, unless that is too old."""
        self._asked_at = self._clock.monotonic()
        if self._last is None:
            return
        overview, read_at, took = self._last
        age = self._clock.monotonic() - read_at
        if age > MAX_AGE:
            return
        page.add("postroom_outbox_read_age_seconds", outbox, age)
        page.add("postroom_outbox_read_seconds", outbox, took)
        self._write_records(page, outbox, overview)
        _write_fleet(page, outbox, overview)

    def _write_records(self, page: Page, outbox: str, overview: Overview) -> None:
        by_label: dict[str, list[TypeCounts]] = {label: [] for label in self._labels}
        for each in overview.event_types:  # the most pending first
            by_label.setdefault(self._types.label(each.event_type), []).append(each)
        self._labels = tuple(by_label)
        for label, some in by_label.items():
            page.add("postroom_pending_records", outbox, sum(each.pending for each in some), label)
            page.add("postroom_failed_records", outbox, sum(each.failed for each in some), label)
            ages = [each.oldest_pending for each in some if each.oldest_pending is not None]
            oldest = max(ages, default=timedelta()).total_seconds()
            page.add("postroom_oldest_pending_seconds", outbox, oldest, label)
        ready = overview.oldest_ready or timedelta()
        page.add("postroom_ready_records", outbox, overview.ready)
        page.add("postroom_oldest_ready_seconds", outbox, ready.total_seconds())
        page.add("postroom_blocked_keys", outbox, overview.blocked_keys)
        page.add("postroom_pauses", outbox, len(overview.pauses))


def _write_fleet(page: Page, outbox: str, overview: Overview) -> None:
    """Add what all workers report of themselves."""
    alive = sum(each.is_alive for each in overview.workers)
    missing = sum(each.state is WorkerState.MISSING for each in overview.workers)
    page.add("postroom_workers", outbox, alive, "alive")
    page.add("postroom_workers", outbox, missing, "missing")
    routes = overview.waiting_routes
    longest = max((overview.now - each.since for each in routes), default=timedelta())
    page.add("postroom_waiting_routes", outbox, len({each.route for each in routes}))
    page.add("postroom_waiting_route_seconds", outbox, longest.total_seconds())
