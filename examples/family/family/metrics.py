"""Metrics for Prometheus: of the outbox, its publisher and this process, at `/metrics`."""

from fastapi import APIRouter, Response
from postroom.integrations.prometheus import OutboxCollector
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.process_collector import ProcessCollector


class Metrics:
    """What is measured, and the router that shows it."""

    def __init__(self) -> None:
        self.collector = OutboxCollector()
        self._registry = CollectorRegistry()
        self._registry.register(self.collector)
        ProcessCollector(registry=self._registry)
        self.router = APIRouter()
        self.router.add_api_route("/metrics", self._show)

    def _show(self) -> Response:
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)
