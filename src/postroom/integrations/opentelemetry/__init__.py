"""OpenTelemetry: traces from the request to the consumer, and metrics. Needs the extra `otel`."""

from postroom.integrations.opentelemetry.telemetry import OpenTelemetry

__all__ = ["OpenTelemetry"]
