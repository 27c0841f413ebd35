"""Traces for OpenTelemetry: from a request to the processing of its events."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SimpleSpanProcessor,
)
from postroom import Outbox, OutboxRelay
from postroom.integrations.opentelemetry import OpenTelemetry

from messaging.settings import Settings

NOT_TRACED = "/health/,/metrics"


class Tracing:
    """Where spans go, and who makes them.

    The OTLP exporter reads the variables OTEL_EXPORTER_OTLP_…, such as its endpoint.
    """

    def __init__(self, settings: Settings) -> None:
        resource = Resource.create({SERVICE_NAME: settings.otel_service_name})
        self._provider = TracerProvider(resource=resource)
        if settings.otel_traces_exporter == "console":
            self._provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
        else:
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(self._provider)  # for spans of your own
        self._tracer = self._provider.get_tracer(__name__)
        self._postroom = OpenTelemetry(tracer_provider=self._provider)

    def trace_requests(self, app: FastAPI) -> None:
        """Begin a span for each request."""
        FastAPIInstrumentor.instrument_app(
            app,
            tracer_provider=self._provider,
            excluded_urls=NOT_TRACED,
            exclude_spans=["receive", "send"],
        )

    def trace(self, target: Outbox | OutboxRelay) -> None:
        """Begin a span for each event that is captured, and for each delivery of a relay."""
        self._postroom.instrument(target)

    @contextmanager
    def processing(self, event_type: str, headers: Mapping[str, Any]) -> Iterator[None]:
        """Begin a span that continues the trace of a received event."""
        with self._tracer.start_as_current_span(
            f"process {event_type}",
            context=extract(headers),
            kind=trace.SpanKind.CONSUMER,
            attributes={"messaging.operation.type": "process"},
        ):
            yield

    def close(self) -> None:
        """Export the spans that are left."""
        self._provider.shutdown()
