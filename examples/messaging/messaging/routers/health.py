"""Liveness and readiness, for a load balancer or an orchestrator."""

import asyncio
import logging
from typing import Literal

from fastapi import APIRouter, Request, Response
from postroom import HealthStatus, OutboxRelay, database_outage
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

log = logging.getLogger(__name__)
router = APIRouter(prefix="/health", tags=["health"])

READY_WITHIN = 2.0
"""Seconds in which the database has to answer."""


class LiveOut(BaseModel):
    """The process runs."""

    status: Literal["ok"] = "ok"


class RelayOut(BaseModel):
    """The status of the relay; `reason` says why it does not deliver."""

    status: HealthStatus
    reason: str | None


class ReadyOut(BaseModel):
    """Whether requests can be served. `relay` is null if a worker of its own delivers."""

    status: Literal["ok", "unavailable"]
    database: Literal["ok", "unavailable"]
    relay: RelayOut | None


@router.get("/live")
async def live() -> LiveOut:
    """Answer while the event loop runs. Does no I/O."""
    return LiveOut()


@router.get("/ready", responses={503: {"model": ReadyOut}})
async def ready(request: Request, response: Response) -> ReadyOut:
    """Answer 503 when the database cannot be used. The status of the relay changes nothing."""
    database: Literal["ok", "unavailable"] = "ok"
    if not await _answers(request.app.state.engine):
        database, response.status_code = "unavailable", 503
    return ReadyOut(status=database, database=database, relay=_delivery(request.app.state.relay))


def _delivery(relay: OutboxRelay | None) -> RelayOut | None:
    if relay is None:
        return None
    return RelayOut(status=relay.health.status, reason=relay.health.reason)


async def _answers(engine: AsyncEngine) -> bool:
    """Return whether the database answers a query in READY_WITHIN."""
    try:
        async with asyncio.timeout(READY_WITHIN), engine.connect() as connection:
            await connection.execute(text("SELECT 1"))
    except Exception as error:
        if not database_outage(error):
            raise
        log.warning("the database cannot be used: %r", getattr(error, "orig", error))
        return False
    return True
