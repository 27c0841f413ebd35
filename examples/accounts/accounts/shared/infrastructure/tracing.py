"""Traces for OpenTelemetry: from a request to the handlers of its events."""

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

from accounts.settings import Settings
from accounts.shared.infrastructure.telemetry import Watch

NOT_TRACED = "/health/,/metrics"


def trace_requests(app: FastAPI, settings: Settings) -> Watch:
    """Begin a span for each request; return the function that traces a relay.

    The OTLP exporter reads the variables OTEL_EXPORTER_OTLP_…, such as its endpoint.
    """
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: settings.otel_service_name}))
    if settings.otel_traces_exporter == "console":
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    else:
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)  # for spans of your own: trace.get_tracer(__name__)
    FastAPIInstrumentor.instrument_app(
        app,
        tracer_provider=provider,
        excluded_urls=NOT_TRACED,
        exclude_spans=["receive", "send"],
    )
    return OpenTelemetry(tracer_provider=provider).instrument
