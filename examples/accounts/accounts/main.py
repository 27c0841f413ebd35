"""The application: `uvicorn --factory accounts.main:create_app`."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dishka import AsyncContainer, Provider
from dishka.integrations.fastapi import setup_dishka
from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from postroom import OutboxRelay
from postroom.integrations.dishka import check_handlers
from postroom.integrations.fastapi import relay_lifespan

from accounts.account.infrastructure import router as account
from accounts.container import make_container
from accounts.core.infrastructure import router as core
from accounts.settings import EventDispatch, Settings
from accounts.shared.infrastructure import health, problems, telemetry
from accounts.shared.infrastructure.persistence.check import check_tables


def create_app(settings: Settings | None = None, *overrides: Provider) -> FastAPI:
    """Wire the application. It connects to nothing before it is started.

    `overrides` replace adapters, with fakes for instance.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    settings = settings or Settings.load()
    app = FastAPIOffline(  # /docs loads its files from here, not from another host
        title="Accounts",
        redoc_url=None,
        lifespan=LIFESPANS[settings.event_dispatch],
        responses={503: {"model": problems.Problem}},
    )
    setup_dishka(make_container(settings, *overrides), app)
    problems.install(app)
    for router in (account.router, core.router, health.router):
        app.include_router(router)
    app.state.watches = telemetry.install(app, settings)
    return app


async def relay_of(app: FastAPI) -> OutboxRelay:
    """Return the relay of an application, with its metrics and traces."""
    relay = await container_of(app).get(OutboxRelay)
    for watch in app.state.watches:
        watch(relay)
    return relay


@asynccontextmanager
async def checked(app: FastAPI) -> AsyncIterator[None]:
    """Refuse to start with a handler that cannot be built, or without tables."""
    await check_handlers(container_of(app))
    await check_tables(container_of(app))
    yield


@asynccontextmanager
async def without_relay(app: FastAPI) -> AsyncIterator[None]:
    """Check the application, and close its container at the end."""
    try:
        async with checked(app):
            yield
    finally:
        await container_of(app).close()


LIFESPANS = {
    # The relay is stopped before the container is closed.
    EventDispatch.OUTBOX: relay_lifespan(relay_of, lifespan=checked),
    EventDispatch.IN_PROCESS: without_relay,
}


def container_of(app: FastAPI) -> AsyncContainer:
    container: AsyncContainer = app.state.dishka_container
    return container
