"""The application: `uvicorn --factory family.main:create_app`."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from dishka import AsyncContainer
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from postroom import OutboxEventPublisher, database_outage
from postroom.integrations.fastapi import relay_lifespan
from sqlalchemy.ext.asyncio import AsyncEngine

from family.api.health import health_router
from family.api.router import GRAPHIQL, graphql_router
from family.bootstrap import bootstrap
from family.infrastructure.outbox import outbox
from family.settings import Settings
from family.telemetry import Telemetry

log = logging.getLogger(__name__)


def create_app(settings: Settings | None = None) -> FastAPI:
    """Make the application; the publisher runs for as long as it does, unless a worker has it."""
    settings = settings or Settings.load()
    logging.basicConfig(level=settings.log_level)
    container, telemetry = bootstrap(settings), Telemetry(settings)

    async def publisher(_: FastAPI) -> OutboxEventPublisher:
        publisher = await container.get(OutboxEventPublisher)
        telemetry.observe(publisher)
        return publisher

    with_publisher = relay_lifespan(
        publisher, container=container, lifespan=lambda _: started(container, telemetry)
    )
    publishes = settings.publish_in_application
    app = FastAPI(
        title="Family hub",
        lifespan=with_publisher if publishes else lambda _: with_worker(container, telemetry),
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(graphql_router(container), prefix="/graphql")
    app.mount("/graphiql", StaticFiles(directory=GRAPHIQL))
    app.include_router(health_router(container, has_publisher=publishes))
    telemetry.add_to(app)
    return app


@asynccontextmanager
async def started(container: AsyncContainer, telemetry: Telemetry) -> AsyncIterator[None]:
    """Refuse to start without the tables. A database that is away can come: requests get a 503."""
    try:
        async with (await container.get(AsyncEngine)).connect() as connection:
            await connection.run_sync(outbox.check)
    except Exception as error:
        if not database_outage(error):
            raise
        log.warning("the database cannot be used yet: %s", str(error).partition("\n")[0])
    yield
    await telemetry.close()


@asynccontextmanager
async def with_worker(container: AsyncContainer, telemetry: Telemetry) -> AsyncIterator[None]:
    """Wake the worker, which is another process, after each commit."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(container.close)
        await stack.enter_async_context(started(container, telemetry))
        engine = await container.get(AsyncEngine)
        stack.callback(outbox.notify_workers(engine).close)
        await stack.enter_async_context(telemetry.watching(engine))
        yield
