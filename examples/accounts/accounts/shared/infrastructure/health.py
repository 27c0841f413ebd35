"""Liveness and readiness, for a load balancer or an orchestrator."""

import asyncio
import logging
from typing import Literal, Self

from dishka.integrations.fastapi import DishkaRoute, FromDishka
from fastapi import APIRouter, Response, status
from postroom import Health, HealthStatus, OutboxRelay, database_outage
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from accounts.settings import EventDispatch, Settings

log = logging.getLogger(__name__)
router = APIRouter(prefix="/health", route_class=DishkaRoute, tags=["health"])

READY_WITHIN = 2.0
"""Seconds in which the database has to answer."""


class LiveView(BaseModel):
    """The process runs."""

    status: Literal["ok"] = "ok"


class RelayView(BaseModel):
    """The relay's status; `reason` says why it does not deliver."""

    status: HealthStatus
    reason: str | None

    @classmethod
    def of(cls, health: Health) -> Self:
        return cls(status=health.status, reason=health.reason)


class ReadyView(BaseModel):
    """Whether requests can be served. `relay` is informative: it is null without an outbox."""

    status: Literal["ok", "unavailable"]
    database: Literal["ok", "unavailable"]
    relay: RelayView | None


@router.get("/live")
async def live() -> LiveView:
    """Answer while the event loop runs. Does no I/O."""
    return LiveView()


@router.get("/ready", responses={503: {"model": ReadyView}})
async def ready(
    engine: FromDishka[AsyncEngine],
    relay: FromDishka[OutboxRelay],
    settings: FromDishka[Settings],
    response: Response,
) -> ReadyView:
    """Answer 503 when the database cannot be used. The relay's status changes nothing."""
    database: Literal["ok", "unavailable"] = "ok"
    if not await answers(engine):
        database = "unavailable"
        response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    has_relay = settings.event_dispatch is EventDispatch.OUTBOX
    delivery = RelayView.of(relay.health) if has_relay else None
    return ReadyView(status=database, database=database, relay=delivery)


async def answers(engine: AsyncEngine) -> bool:
    """Return whether the database answers a query in READY_WITHIN."""
    try:
        async with asyncio.timeout(READY_WITHIN), engine.connect() as connection:
            await connection.execute(text("SELECT 1"))
    except Exception as error:
        if not database_outage(error):
            raise
        log.warning("the database is unavailable: %r", getattr(error, "orig", error))
        return False
    return True
