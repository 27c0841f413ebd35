"""What the lanes of a relay share: the ways in and out, the settings, and what is reported."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.errors import ConfigurationError, Outage, error_text
from postroom.outbox import Outbox
from postroom.publishers.base import Publisher
from postroom.relay.breaker import Breaker, Suspicion
from postroom.relay.clock import Clock
from postroom.relay.settings import RelaySettings
from postroom.store.base import Attempt, Store

logger = logging.getLogger("postroom.relay")

OPEN_WITHIN = 8.0
"""Seconds for a publisher to connect in: less than the database may take."""


@dataclass(slots=True)
class Tally:
    """What a relay has done."""

    delivered: int = 0
    retried: int = 0
    postponed: int = 0
    failed: int = 0

    def __str__(self) -> str:
        rest = f"{self.retried} refused, {self.postponed} postponed, {self.failed} failed"
        return f"{self.delivered} delivered, {rest}"


@dataclass(slots=True, kw_only=True)
class Office:
    """See the module."""

    outbox: Outbox
    engine: AsyncEngine
    store: Store
    publisher: Publisher
    settings: RelaySettings
    clock: Clock
    way_out: Breaker
    database: Breaker
    changed: Callable[[], None]
    """Has every lane look at what has changed."""
    tally: Tally = field(default_factory=Tally)
    suspicion: Suspicion = field(default_factory=Suspicion)
    suspected: bool = False
    """Whether a record that may kill the process is on its way, alone."""
    opening: bool = False

    @property
    def patience(self) -> float:
        """Seconds that the database may take; a connection that hangs is one that is lost."""
        return max(10.0, self.settings.lease.total_seconds())

    async def open_publisher(self) -> None:
        """Open the way out, or note the outage. What is set up wrongly is raised."""
        try:
            async with asyncio.timeout(OPEN_WITHIN):
                await self.publisher.open(self.outbox, self.engine)
        except Outage as outage:
            self.way_out.trip(str(outage))
        except ConfigurationError:
            raise
        except TimeoutError:
            self.way_out.trip(f"it did not open within {OPEN_WITHIN:.0f} s")
        except Exception as error:
            logger.exception("postroom: the publisher cannot be opened")
            self.way_out.trip(error_text(error))
        else:
            self.way_out.probe()

    async def reopen_publisher(self) -> None:
        """Try again to open the way out, if it is time and nobody else does."""
        if self.way_out.due() and not self.opening:
            self.opening = True
            try:
                await self.open_publisher()
            finally:
                self.opening = False

    def report(self, attempt: Attempt) -> None:
        """Log what became of a record that was refused, once that is written down."""
        record = attempt.record
        name = f"{record.event_type} {record.id}"
        if record.key is not None:
            name += f" of {record.aggregate_type or ''} {record.aggregate_id}".replace("  ", " ")
        facts = {"record_id": str(record.id), "event_type": record.event_type}
        if attempt.delay is None:
            self.tally.failed += 1
            logger.critical(
                "postroom: gave up on %s after %d attempts: %s",
                name,
                attempt.retry_count,
                attempt.reason or "it was found at its limit",
                extra=facts,
            )
        elif attempt.retry_count == record.retry_count:
            self.tally.postponed += 1
            logger.warning(
                "postroom: %s has to wait, again in %s: %s",
                name,
                attempt.delay,
                attempt.reason,
                extra=facts,
            )
        else:
            self.tally.retried += 1
            logger.error(
                "postroom: %s was refused (attempt %d), again in %s: %s",
                name,
                attempt.retry_count,
                attempt.delay,
                attempt.reason,
                extra=facts,
            )
