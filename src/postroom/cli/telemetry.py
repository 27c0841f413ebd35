"""OpenTelemetry in a worker: switched on where its SDK is set up, without a setting of our own."""

import logging
import sys

from postroom.relay.relay import OutboxRelay

logger = logging.getLogger("postroom.worker")


def instrument(relay: OutboxRelay) -> None:
    """Trace and measure a relay if a tracer provider is set: by `opentelemetry-instrument`, say.

    Otherwise nothing is imported.
    """
    api = sys.modules.get("opentelemetry.trace")
    if api is None or isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
        return
    from postroom.integrations.opentelemetry import OpenTelemetry

    OpenTelemetry().instrument(relay)
    logger.info("postroom: traces and metrics go to OpenTelemetry")
