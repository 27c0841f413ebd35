"""Metrics for Prometheus: those of the process and those of the outbox."""

from contextlib import AbstractAsyncContextManager

from fastapi import FastAPI, Response
from postroom import Outbox, OutboxRelay
from postroom.integrations.prometheus import OutboxCollector
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.process_collector import ProcessCollector
from sqlalchemy.ext.asyncio import AsyncEngine


class Metrics:
    """A registry, and what puts the outbox into it."""

    def __init__(self) -> None:
        self._registry, self._outbox = CollectorRegistry(), OutboxCollector()
        ProcessCollector(registry=self._registry)
        self._registry.register(self._outbox)

    def serve(self, app: FastAPI) -> None:
        """Add the route /metrics."""

        @app.get("/metrics", include_in_schema=False)
        async def metrics() -> Response:
            return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    def count(self, relay: OutboxRelay) -> None:
        """Export the metrics of a relay."""
        relay.observe(self._outbox.observer(relay.outbox))

    def watching(self, outbox: Outbox, engine: AsyncEngine) -> AbstractAsyncContextManager[None]:
        """Export what is in an outbox, read from its database, within the block."""
        return self._outbox.watching(outbox, engine)
