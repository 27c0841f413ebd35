"""The publisher in a process of its own: `postroom worker family.worker:make_publisher`."""

from postroom import OutboxEventPublisher

from family.infrastructure.database import make_engine
from family.infrastructure.outbox import event_publisher
from family.settings import Settings
from family.telemetry import Telemetry


def make_publisher() -> OutboxEventPublisher:
    """Make the publisher by the environment's settings."""
    settings = Settings.load()
    settings.metrics_enabled = False  # `postroom worker --health-port` has them
    engine = make_engine(settings.database)
    publisher = event_publisher(engine, settings.rabbitmq_url, settings.rabbitmq_prefix)
    Telemetry(settings).observe(publisher)
    return publisher
