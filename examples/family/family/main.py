"""The application: `uvicorn --factory family.main:create_app`."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dishka import AsyncContainer
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from sqlalchemy.ext.asyncio import AsyncEngine

from family.api.health import health_router
from family.api.router import GRAPHIQL, graphql_router
from family.bootstrap import bootstrap
from family.infrastructure.outbox import outbox
from family.settings import Settings
from postroom import OutboxEventPublisher, database_outage
from postroom.integrations.fastapi import relay_lifespan

log = logging.getLogger(__name__)


def create_app(settings: Settings | None = None) -> FastAPI:
    """Make the application, and have the publisher run for as long as it does."""
    settings = settings or Settings.load()
    logging.basicConfig(level=settings.log_level)
    container = bootstrap(settings)
    lifespan = relay_lifespan(
        lambda _: container.get(OutboxEventPublisher),
        container=container,
        lifespan=lambda _: checked(container),
    )
    app = FastAPI(title="Family hub", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.include_router(graphql_router(container), prefix="/graphql")
    app.mount("/graphiql", StaticFiles(directory=GRAPHIQL))
    app.include_router(health_router(container))
    return app


@asynccontextmanager
async def checked(container: AsyncContainer) -> AsyncIterator[None]:
    """Refuse to start without the tables. A database that is away can come: requests get a 503."""
    try:
        async with (await container.get(AsyncEngine)).connect() as connection:
            await connection.run_sync(outbox.check)
    except Exception as error:
        if not database_outage(error):
            raise
        log.warning("the database cannot be used yet: %s", str(error).partition("\n")[0])
    yield
