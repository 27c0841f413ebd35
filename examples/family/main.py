"""The application: `uvicorn --factory examples.family.main:create_app`."""

import logging

from fastapi import FastAPI

from examples.family.api.health import health_router
from examples.family.api.router import graphql_router
from examples.family.bootstrap import bootstrap
from examples.family.settings import Settings
from postroom import OutboxEventPublisher
from postroom.integrations.fastapi import relay_lifespan


def create_app(settings: Settings | None = None) -> FastAPI:
    """Make the application, and have the publisher run for as long as it does."""
    settings = settings or Settings.load()
    logging.basicConfig(level=settings.log_level)
    container = bootstrap(settings)
    lifespan = relay_lifespan(lambda _: container.get(OutboxEventPublisher), container=container)
    app = FastAPI(title="Family hub", lifespan=lifespan)
    app.include_router(graphql_router(container), prefix="/graphql")
    app.include_router(health_router(container))
    return app
