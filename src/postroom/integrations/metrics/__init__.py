"""What is measured of relays and outboxes, for Prometheus and OpenTelemetry alike."""
