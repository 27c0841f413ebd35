"""Prometheus: metrics of relays and outboxes, in a registry of `prometheus_client`."""

from postroom.integrations.prometheus.collector import OutboxCollector

__all__ = ["OutboxCollector"]
