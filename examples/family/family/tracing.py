"""Traces for OpenTelemetry: from a request to the delivery of its events."""

import asyncio

from fastapi import FastAPI
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SimpleSpanProcessor,
)
from postroom.integrations.opentelemetry import OpenTelemetry

from family.settings import Settings

NOT_TRACED = "/health/,/metrics"
FLUSH_MILLISECONDS = 5_000


class Tracing:
    """The tracer provider of the process, which is the global one too.

    The OTLP exporter reads the variables OTEL_EXPORTER_OTLP_…, such as its endpoint.
    """

    def __init__(self, settings: Settings) -> None:
        name = Resource.create({SERVICE_NAME: settings.otel_service_name})
        self._provider = TracerProvider(resource=name)
        if settings.otel_traces_exporter == "console":
            self._provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
        else:
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(self._provider)  # for spans of your own, and the worker's
        self.postroom = OpenTelemetry(tracer_provider=self._provider)

    def trace_requests(self, app: FastAPI) -> None:
        """Begin a span for each request, in the trace that its header `traceparent` names."""
        FastAPIInstrumentor.instrument_app(
            app,
            tracer_provider=self._provider,
            excluded_urls=NOT_TRACED,
            exclude_spans=["receive", "send"],
        )

    async def flush(self) -> None:
        """Send the spans that have not been sent: uvicorn ends by the signal, without `atexit`."""
        await asyncio.to_thread(self._provider.force_flush, FLUSH_MILLISECONDS)
