"""Metrics of the process and of the outbox, for Prometheus: `GET /metrics`."""

from fastapi import FastAPI, Response
from postroom import OutboxRelay
from postroom.integrations.prometheus import OutboxCollector
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.process_collector import ProcessCollector

from accounts.shared.infrastructure.telemetry import Watch


def serve_metrics(app: FastAPI) -> Watch:
    """Add the route `/metrics`; return the function that adds a relay to it."""
    registry, outbox_metrics = CollectorRegistry(), OutboxCollector()
    ProcessCollector(registry=registry)
    registry.register(outbox_metrics)

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    def watch(relay: OutboxRelay) -> None:
        relay.observe(outbox_metrics.observer(relay.outbox))

    return watch
