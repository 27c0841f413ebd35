"""Metrics and traces of a process, each switched on by a setting."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from postroom import Outbox, OutboxRelay
from sqlalchemy.ext.asyncio import AsyncEngine

from messaging.settings import Settings

if TYPE_CHECKING:
    from messaging.metrics import Metrics
    from messaging.tracing import Tracing

MISSING = (
    "messaging cannot start: {} is not installed. METRICS_ENABLED and TRACING_ENABLED need the"
    " extra `telemetry`: pip install 'messaging[telemetry]'"
)


class Telemetry:
    """What the settings switch on. Packages of the extra `telemetry` are imported only then."""

    def __init__(self, settings: Settings) -> None:
        try:
            self._metrics = _make_metrics() if settings.metrics_enabled else None
            self._tracing = _make_tracing(settings) if settings.tracing_enabled else None
        except ModuleNotFoundError as error:
            raise SystemExit(MISSING.format(error.name)) from None

    def install(self, app: FastAPI) -> None:
        """Add the route /metrics, and a span for each request."""
        if self._metrics is not None:
            self._metrics.serve(app)
        if self._tracing is not None:
            self._tracing.trace_requests(app)

    def count(self, relay: OutboxRelay) -> None:
        """Export the metrics of a relay of this process."""
        if self._metrics is not None:
            self._metrics.count(relay)

    def watching(self, outbox: Outbox, engine: AsyncEngine) -> AbstractAsyncContextManager[None]:
        """Export what is in an outbox whose relay is in another process, within the block."""
        return nullcontext() if self._metrics is None else self._metrics.watching(outbox, engine)

    def trace(self, target: Outbox | OutboxRelay) -> None:
        """Trace what an outbox captures, or what a relay delivers."""
        if self._tracing is not None:
            self._tracing.trace(target)

    def processing(
        self, event_type: str, headers: Mapping[str, Any]
    ) -> AbstractContextManager[None]:
        """Trace the processing of a received event, as a part of the trace in its headers."""
        if self._tracing is None:
            return nullcontext()
        return self._tracing.processing(event_type, headers)

    def close(self) -> None:
        """Export the spans that are left. Blocks."""
        if self._tracing is not None:
            self._tracing.close()


def _make_metrics() -> "Metrics":
    from messaging.metrics import Metrics

    return Metrics()


def _make_tracing(settings: Settings) -> "Tracing":
    from messaging.tracing import Tracing

    return Tracing(settings)
