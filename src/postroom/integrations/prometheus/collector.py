"""The collector for a Prometheus registry."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.integrations.metrics.measurements import Measurements
from postroom.integrations.prometheus.page import ScrapePage
from postroom.outbox import Outbox
from postroom.relay.observer import RelayObserver


class OutboxCollector(Collector):
    """A collector of the metrics of relays and outboxes, for a registry of `prometheus_client`.

    Register one per process: `REGISTRY.register(OutboxCollector())`. It serves all outboxes. A
    scrape may come from any thread, and never waits for the database: the metrics of an outbox are
    read in the event loop, every 10 s at most.
    """

    def __init__(self) -> None:
        self._measurements = Measurements()

    def observer(self, outbox: Outbox) -> RelayObserver:
        """Return the observer for a relay: `OutboxRelay(…, observers=[metrics.observer(outbox)])`.

        While the relay runs, the metrics of the outbox in the database are exported too.
        """
        return self._measurements.observer(outbox)

    def watching(self, outbox: Outbox, engine: AsyncEngine) -> AbstractAsyncContextManager[None]:
        """Export the metrics of an outbox in the database for as long as the block lasts.

        For a process without a relay, such as an application whose records a worker delivers.
        """
        return self._measurements.watching(outbox, engine)

    def collect(self) -> Iterable[Metric]:
        """Return the metrics. `prometheus_client` calls this for each scrape."""
        page = ScrapePage()
        self._measurements.write(page)
        return page.families()
