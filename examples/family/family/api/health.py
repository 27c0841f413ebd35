"""Liveness and readiness, for an orchestrator and a load balancer."""

import asyncio
import logging
from typing import Any

from dishka import AsyncContainer
from fastapi import APIRouter, Response, status
from postroom import OutboxEventPublisher
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

READY_WITHIN = 2.0
"""Seconds in which the database has to answer."""

log = logging.getLogger(__name__)


def health_router(container: AsyncContainer, *, has_publisher: bool) -> APIRouter:
    """Make the router for `/health`."""
    router = APIRouter(prefix="/health")

    @router.get("/live")
    async def live() -> dict[str, str]:
        """Answer while the event loop runs. Does no I/O."""
        return {"status": "ok"}

    @router.get("/ready")
    async def ready(response: Response) -> dict[str, Any]:
        """Answer 503 when the database cannot be used. The publisher's status changes nothing."""
        database = "ok"
        if not await answers(await container.get(AsyncEngine)):
            database = "unavailable"
            response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
        relay = None
        if has_publisher:
            health = (await container.get(OutboxEventPublisher)).health
            relay = {"status": health.status, "reason": health.reason}
        return {"status": database, "database": database, "relay": relay}

    return router


async def answers(engine: AsyncEngine) -> bool:
    """Return whether the database answers a query in READY_WITHIN."""
    try:
        async with asyncio.timeout(READY_WITHIN), engine.connect() as connection:
            await connection.execute(text("SELECT 1"))
    except Exception as error:  # whatever it is: without a database nothing can be served
        log.warning("the database cannot be used: %r", getattr(error, "orig", error))
        return False
    return True
