"""The application: `uvicorn --factory accounts.main:create_app`."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dishka import AsyncContainer
from dishka.integrations.fastapi import setup_dishka
from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from accounts.account.infrastructure import router as account
from accounts.container import make_container
from accounts.core.infrastructure import router as core
from accounts.settings import Settings
from accounts.shared.infrastructure import health, problems
from accounts.shared.infrastructure.persistence.check import check_tables
from postroom import OutboxRelay
from postroom.integrations.dishka import check_handlers
from postroom.integrations.fastapi import relay_lifespan


def create_app(settings: Settings | None = None) -> FastAPI:
    """Wire the application. It connects to nothing before it is started."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    app = FastAPIOffline(  # /docs loads its files from here, not from another host
        title="Accounts",
        redoc_url=None,
        lifespan=relay_lifespan(relay_of, lifespan=checked),
        responses={503: {"model": problems.Problem}},
    )
    setup_dishka(make_container(settings or Settings.load()), app)
    problems.install(app)
    for router in (account.router, core.router, health.router):
        app.include_router(router)
    return app


async def relay_of(app: FastAPI) -> OutboxRelay:
    """Give the relay of an application. It is stopped before the container is closed."""
    return await container_of(app).get(OutboxRelay)


@asynccontextmanager
async def checked(app: FastAPI) -> AsyncIterator[None]:
    """Refuse to start with a handler that cannot be built, or without tables."""
    await check_handlers(container_of(app))
    await check_tables(container_of(app))
    yield


def container_of(app: FastAPI) -> AsyncContainer:
    container: AsyncContainer = app.state.dishka_container
    return container
