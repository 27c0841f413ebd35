"""The relay: `postroom worker messaging.worker:make_relay`, or inside the API without RabbitMQ."""

from postroom import OutboxRelay, Publisher, RetrySchedule
from sqlalchemy.ext.asyncio import AsyncEngine

from messaging.broker import make_publisher
from messaging.database import make_engine
from messaging.models import outbox
from messaging.settings import Settings
from messaging.telemetry import Telemetry


def make_relay(
    settings: Settings | None = None,
    engine: AsyncEngine | None = None,
    publisher: Publisher | None = None,
) -> OutboxRelay:
    """Make the relay. What it is not given is made from the settings of the environment."""
    if settings is None:
        return _of_worker(Settings.load())
    return OutboxRelay(
        outbox,
        engine or make_engine(settings.database_url),
        publisher or make_publisher(settings),
        poll_interval=settings.poll_interval,
        batch_size=settings.outbox_batch_size,
        retry=RetrySchedule.tiers().ending_after(settings.outbox_max_retries),
        retention=settings.retention,
    )


def _of_worker(settings: Settings) -> OutboxRelay:
    """Make the relay of a process of its own, whose health port has the metrics."""
    relay = make_relay(settings)
    Telemetry(settings.model_copy(update={"metrics_enabled": False})).trace(relay)
    return relay
