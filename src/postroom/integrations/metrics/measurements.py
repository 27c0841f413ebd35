"""What is measured of all relays and outboxes of a process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.integrations.metrics.names import Page
from postroom.integrations.metrics.outbox_metrics import OutboxMetrics
from postroom.integrations.metrics.relay_metrics import EventTypes, RelayMetrics
from postroom.outbox import Outbox
from postroom.relay.observer import RelayObserver
from postroom.relay.relay import OutboxRelay


class Measurements:
    """Measures relays and outboxes; `write` gives the current values, in any thread."""

    def __init__(self) -> None:
        self._types = EventTypes()
        self._relays: dict[str, RelayMetrics] = {}
        self._outboxes: dict[str, OutboxMetrics] = {}

    def observer(self, outbox: Outbox) -> RelayObserver:
        """Return the observer for the relays of an outbox.

        While a relay runs, the outbox is read from the database, too.
        """
        name = outbox.tables.records.fullname
        return self._relays.setdefault(name, RelayMetrics(self._types, self._watching_relay))

    @asynccontextmanager
    async def watching(self, outbox: Outbox, engine: AsyncEngine) -> AsyncIterator[None]:
        """Read an outbox from its database for as long as the block lasts."""
        name = outbox.tables.records.fullname
        metrics = self._outboxes[name] = OutboxMetrics(outbox, engine, self._types)
        try:
            async with metrics.reading():
                yield
        finally:
            self._outboxes.pop(name, None)

    def write(self, page: Page) -> None:
        """Add the current value of every metric to a page."""
        for name, relay in list(self._relays.items()):
            relay.write(page, name)
        for name, outbox in list(self._outboxes.items()):
            outbox.write(page, name)

    @asynccontextmanager
    async def _watching_relay(self, relay: OutboxRelay) -> AsyncIterator[None]:
        async with self.watching(relay.outbox, relay.engine):
            yield
