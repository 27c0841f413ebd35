"""Makes a relay from the settings."""

from dataclasses import fields
from datetime import timedelta
from typing import Final

from postroom.cli.database import engine_of, outbox_of
from postroom.cli.errors import CommandError, missing_extra
from postroom.cli.loading import load
from postroom.cli.options import WorkerSettings, named_in_code
from postroom.errors import ConfigurationError
from postroom.outbox import Outbox
from postroom.publishers.base import Publisher
from postroom.relay.relay import OutboxRelay
from postroom.relay.retry import RetrySchedule

OF_THE_PROCESS: Final = frozenset(
    ("relay", "config", "health_host", "health_port", "log_format", "log_level")
)
"""The settings of the process: they apply, too, when a module provides the relay."""


async def relay_of(settings: WorkerSettings) -> OutboxRelay:
    """Load the relay that the settings name, or make one from the URLs in them."""
    name = named_in_code(settings)
    if name is not None:
        refuse_unused(settings, name)
        relay: OutboxRelay = await load(name, OutboxRelay)
        return relay
    if settings.database is None:
        raise CommandError(
            "which outbox? Name a relay (postroom worker app.outbox:relay), or a"
            " database (--database URL, or DATABASE_URL)."
        )
    outbox = outbox_of(settings)
    try:
        return _relay_from_urls(settings, settings.database, outbox)
    except ConfigurationError as error:
        raise CommandError(str(error)) from error


def _relay_from_urls(settings: WorkerSettings, database: str, outbox: Outbox) -> OutboxRelay:
    days = settings.cleanup_days
    return OutboxRelay(
        outbox,
        engine_of(database),
        publisher_of(settings),
        poll_interval=timedelta(seconds=settings.poll_interval),
        batch_size=settings.batch_size,
        listen=settings.channel,
        retry=schedule_of(settings),
        on_failed=settings.on_failed,
        lease=timedelta(seconds=settings.lease),
        grace=timedelta(seconds=settings.grace),
        retention=None if days is None else timedelta(days=days),
    )


def refuse_unused(settings: WorkerSettings, name: str) -> None:
    """Raise CommandError for an option that the relay of a module does not use."""
    order = [each.name for each in fields(settings)]
    unused = sorted(settings.given - OF_THE_PROCESS, key=order.index)
    if unused:
        raise CommandError(
            f"--{unused[0].replace('_', '-')} is for a worker that is made from URLs."
            f" The code that makes {name} decides that."
        )


def schedule_of(settings: WorkerSettings) -> RetrySchedule:
    """Make the retry schedule."""
    match settings.retry:
        case "backoff":
            schedule = RetrySchedule.backoff()
        case "polls":
            schedule = RetrySchedule.polls()
        case "tiers":
            schedule = RetrySchedule.tiers()
        case delays:
            schedule = RetrySchedule.seconds(*delays)
    return schedule.ending_after(settings.max_retries)


def publisher_of(settings: WorkerSettings) -> Publisher:
    """Make the publisher for RabbitMQ."""
    try:
        from postroom.publishers.rabbitmq import RabbitMQPublisher
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error
    return RabbitMQPublisher(
        settings.broker, exchange=settings.exchange, cloud_events=settings.cloud_events
    )
