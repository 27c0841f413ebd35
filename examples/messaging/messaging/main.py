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

from messaging.audit import print_from_memory
from messaging.broker import in_memory, topology
from messaging.database import make_engine
from messaging.errors import PROBLEMS, answer_errors
from messaging.models import outbox
from messaging.routers import catalogue, group_messages, health, scheduled_messages
from messaging.settings import Settings
from messaging.worker import make_relay

log = logging.getLogger(__name__)


def create_app(settings: Settings | None = None) -> FastAPI:
    """Make the application: it saves, and a worker delivers.

    Without RabbitMQ there is nobody to deliver to but itself: it has the worker in it, and a broker
    in memory.
    """
    settings = settings or Settings.load()
    engine = make_engine(settings.database_url)
    lifespan = _serving(engine)
    relay = None
    if settings.rabbitmq_url is None:
        memory = in_memory(topology())
        relay = make_relay(settings, engine, memory)
        lifespan = relay_lifespan(relay, lifespan=_auditing(memory, lifespan))
    # /docs loads its files from here, not from another host
    app = FastAPIOffline(title="Messaging", lifespan=lifespan, redoc_url=None)
    app.state.relay = relay
    app.state.sessions = async_sessionmaker(engine, expire_on_commit=False)
    answer_errors(app)
    for part in (group_messages, scheduled_messages, catalogue):
        app.include_router(part.router, responses=PROBLEMS)
    app.include_router(health.router)
    return app


def _serving(engine: AsyncEngine) -> Lifespan:
    @asynccontextmanager
    async def serving(app: FastAPI) -> AsyncIterator[None]:
        await _check(engine)
        notifier = outbox.notify_workers(engine)
        yield
        await asyncio.to_thread(notifier.close)
        await engine.dispose()

    return serving


async def _check(engine: AsyncEngine) -> None:
    """Refuse to start without the tables. A database that is away can come: requests get a 503."""
    try:
        async with engine.connect() as connection:
            await connection.run_sync(outbox.check)  # if it complains: alembic upgrade head
    except Exception as error:
        if not database_outage(error):
            raise
        log.warning("the database cannot be used yet: %s", error)


def _auditing(memory: MemoryPublisher, lifespan: Lifespan) -> Lifespan:
    @asynccontextmanager
    async def auditing(app: FastAPI) -> AsyncIterator[None]:
        async with lifespan(app), asyncio.TaskGroup() as group:
            audit = group.create_task(print_from_memory(memory))
            yield
            audit.cancel()

    return auditing
