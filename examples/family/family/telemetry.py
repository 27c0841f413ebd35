"""Metrics and traces, each switched on by a setting."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from postroom import OutboxEventPublisher
from sqlalchemy.ext.asyncio import AsyncEngine

from family.infrastructure.outbox import outbox
from family.settings import Settings

if TYPE_CHECKING:
    from family.metrics import Metrics
    from family.tracing import Tracing

MISSING = (
    "family cannot start: {} is not installed. METRICS_ENABLED and TRACING_ENABLED need the extra"
    " `telemetry`: pip install -e '.[telemetry]'"
)


class Telemetry:
    """What the settings have switched on. Make one for a process.

    The packages of the extra `telemetry` are imported only if they are used.
    """

    _metrics: "Metrics | None" = None
    _tracing: "Tracing | None" = None

    def __init__(self, settings: Settings) -> None:
        try:
            if settings.metrics_enabled:
                from family.metrics import Metrics

                self._metrics = Metrics()
            if settings.tracing_enabled:
                from family.tracing import Tracing

                self._tracing = Tracing(settings)
        except ModuleNotFoundError as error:
            raise SystemExit(MISSING.format(error.name)) from None

    def add_to(self, app: FastAPI) -> None:
        """Answer `/metrics`; begin a span for each request."""
        if self._metrics:
            app.include_router(self._metrics.router)
        if self._tracing:
            self._tracing.trace_requests(app)

    def observe(self, publisher: OutboxEventPublisher) -> None:
        """Measure and trace a publisher of this process."""
        if self._metrics:
            publisher.observe(self._metrics.collector.observer(outbox))
        if self._tracing:
            self._tracing.postroom.instrument(publisher)

    @asynccontextmanager
    async def watching(self, engine: AsyncEngine) -> AsyncIterator[None]:
        """Measure and trace the outbox of a process without a publisher."""
        if self._tracing:
            self._tracing.postroom.instrument(outbox)
        if self._metrics is None:
            yield
            return
        async with self._metrics.collector.watching(outbox, engine):
            yield

    async def close(self) -> None:
        """Send the spans that have not been sent."""
        if self._tracing:
            await self._tracing.flush()
