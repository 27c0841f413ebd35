"""What delivers: `postroom worker messaging.worker:make_relay`, or the API itself."""

from postroom import OutboxRelay, Publisher, RetrySchedule
from sqlalchemy.ext.asyncio import AsyncEngine

from messaging.broker import make_publisher
from messaging.database import make_engine
from messaging.models import outbox
from messaging.settings import Settings


def make_relay(
    settings: Settings | None = None,
    engine: AsyncEngine | None = None,
    publisher: Publisher | None = None,
) -> OutboxRelay:
    """Make the relay; what it is not given, it makes by the environment's settings."""
    settings = settings or Settings.load()
    return OutboxRelay(
        outbox,
        engine or make_engine(settings.database_url),
        publisher or make_publisher(settings),
        poll_interval=settings.poll_interval,
        batch_size=settings.outbox_batch_size,
        retry=RetrySchedule.tiers().ending_after(settings.outbox_max_retries),
        retention=settings.retention,
    )
