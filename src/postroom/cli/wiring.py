"""Makes a relay from what the settings say."""

from datetime import timedelta
from pathlib import Path

from sqlalchemy import URL, MetaData, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom.cli.errors import CommandError, Exit, missing_extra
from postroom.cli.loading import load
from postroom.cli.settings import WorkerSettings
from postroom.errors import ConfigurationError
from postroom.outbox import Outbox
from postroom.publishers.base import Publisher
from postroom.relay.relay import OutboxRelay
from postroom.relay.retry import RetrySchedule

DRIVERS = {
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "sqlite": "sqlite+aiosqlite",
}
SHAPE = "postgresql://user:password@host:5432/name, or sqlite:///path/to/file"


async def relay_of(settings: WorkerSettings) -> OutboxRelay:
    """Load the relay that the settings name, or make one from the URLs in them."""
    if settings.relay is not None:
        relay: OutboxRelay = await load(settings.relay, OutboxRelay)
        return relay
    if settings.database is None:
        raise CommandError(
            "what is to be delivered? Name a relay (postroom worker app.outbox:relay), or a"
            " database (--database URL, or DATABASE_URL)."
        )
    outbox = Outbox(MetaData(), table=settings.table, schema=settings.schema)
    try:
        return OutboxRelay(
            outbox,
            engine_of(settings.database),
            publisher_of(settings),
            poll_interval=timedelta(seconds=settings.poll_interval),
            batch_size=settings.batch_size,
            listen=settings.channel,
            retry=RetrySchedule.tiers().ending_after(settings.max_retries),
            retention=timedelta(days=settings.cleanup_days),
        )
    except ConfigurationError as error:
        raise CommandError(str(error)) from error


def engine_of(database: str) -> AsyncEngine:
    """Make an engine of a URL, with or without a driver. Raises CommandError without the URL."""
    try:
        url = make_url(database)
    except (ArgumentError, ValueError):
        raise CommandError(f"the database's URL cannot be read. Its form is {SHAPE}.") from None
    _check_file(url)
    try:
        return create_async_engine(_with_driver(url), hide_parameters=True)
    except ModuleNotFoundError as error:
        raise missing_extra(error) or CommandError(_unknown(url)) from error
    except SQLAlchemyError as error:  # a driver that is not async, or not known
        raise CommandError(_unknown(url)) from error


def publisher_of(settings: WorkerSettings) -> Publisher:
    """Make the publisher for RabbitMQ."""
    try:
        from postroom.publishers.rabbitmq import RabbitMQPublisher
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error
    return RabbitMQPublisher(
        settings.broker, exchange=settings.exchange, cloud_events=settings.cloud_events
    )


def _with_driver(url: URL) -> URL:
    driver = DRIVERS.get(url.drivername, url.drivername)
    if driver.partition("+")[0] not in ("postgresql", "sqlite"):
        raise CommandError(_unknown(url))
    if "@" in (url.host or "") or (url.host and "@" in (url.database or "")):
        raise CommandError("the database's URL has an @ in its user or password: write %40 for it.")
    if url.port is not None and not 0 < url.port < 65536:
        raise CommandError(f"the database's URL has port {url.port}. Ports end at 65535.")
    url = url.set(drivername=driver)
    if driver == "postgresql+asyncpg" and "sslmode" in url.query:  # which asyncpg calls `ssl`
        mode = str(url.query["sslmode"])
        url = url.difference_update_query(["sslmode"]).update_query_dict({"ssl": mode})
    return url


def _check_file(url: URL) -> None:
    """Refuse a file that is not there: SQLite would make an empty one."""
    path = url.database or ":memory:"
    special = path.startswith((":memory:", "file:"))
    if url.get_backend_name() == "sqlite" and not special and not Path(path).is_file():
        raise CommandError(f"there is no database file {path}.", Exit.DATABASE)


def _unknown(url: URL) -> str:
    return f"postroom has no way to use {url.drivername!r}. The URL's form is {SHAPE}."
