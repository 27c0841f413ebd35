"""The application, wired in one place: `uvicorn --factory messaging.main:create_app`."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from postroom import MemoryPublisher, database_outage
from postroom.integrations.fastapi import Lifespan, relay_lifespan
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

from messaging.broker import in_memory, topology
from messaging.database import make_engine
from messaging.errors import PROBLEMS, answer_errors
from messaging.in_memory import MemoryConsumer
from messaging.models import outbox
from messaging.processing import Processor
from messaging.routers import catalogue, deliveries, group_messages, health, scheduled_messages
from messaging.settings import Settings
from messaging.telemetry import Telemetry
from messaging.worker import make_relay

log = logging.getLogger(__name__)


def create_app(settings: Settings | None = None) -> FastAPI:
    """Make the application. It saves; the worker delivers, and the consumer processes.

    Without RABBITMQ_URL the worker and the consumer are in this process, around a broker in memory.
    """
    settings = settings or Settings.load()
    engine = make_engine(settings.database_url)
    telemetry = Telemetry(settings)
    relay = None
    if settings.rabbitmq_url is None:
        memory = in_memory(topology())
        relay = make_relay(settings, engine, memory)
        telemetry.count(relay)
        consuming = _consuming(memory, engine, telemetry, settings)
        lifespan = relay_lifespan(relay, lifespan=consuming)
    else:
        lifespan = _watching(engine, telemetry)
    telemetry.trace(relay or outbox)
    # /docs loads its files from here, not from another host
    app = FastAPIOffline(title="Messaging", lifespan=lifespan, redoc_url=None)
    app.state.engine, app.state.relay = engine, relay
    app.state.sessions = async_sessionmaker(engine, expire_on_commit=False)
    answer_errors(app)
    for part in (group_messages, scheduled_messages, deliveries, catalogue):
        app.include_router(part.router, responses=PROBLEMS)
    app.include_router(health.router)
    telemetry.install(app)
    return app


@asynccontextmanager
async def _serving(engine: AsyncEngine, telemetry: Telemetry) -> AsyncIterator[None]:
    """Check the tables; have each commit of events wake the worker."""
    await _check(engine)
    notifier = outbox.notify_workers(engine)
    try:
        yield
    finally:
        await asyncio.to_thread(notifier.close)
        await asyncio.to_thread(telemetry.close)
        await engine.dispose()


def _watching(engine: AsyncEngine, telemetry: Telemetry) -> Lifespan:
    @asynccontextmanager
    async def watching(app: FastAPI) -> AsyncIterator[None]:
        async with _serving(engine, telemetry), telemetry.watching(outbox, engine):
            yield

    return watching


def _consuming(
    memory: MemoryPublisher, engine: AsyncEngine, telemetry: Telemetry, settings: Settings
) -> Lifespan:
    processor = Processor(async_sessionmaker(engine, expire_on_commit=False))
    attempts = settings.consumer_max_attempts
    consumer = MemoryConsumer(memory, processor, telemetry, max_attempts=attempts)

    @asynccontextmanager
    async def consuming(app: FastAPI) -> AsyncIterator[None]:
        async with _serving(engine, telemetry), consumer.running():
            yield

    return consuming


async def _check(engine: AsyncEngine) -> None:
    """Refuse to start without the tables. A database that is away can come: requests get a 503."""
    try:
        async with engine.connect() as connection:
            await connection.run_sync(outbox.check)  # if it complains: alembic upgrade head
    except Exception as error:
        if not database_outage(error):
            raise
        log.warning("the database cannot be used yet: %s", error)
