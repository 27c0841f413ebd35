"""How the application is, for whoever watches it."""

from fastapi import APIRouter, Request, Response
from postroom import Health, HealthStatus, OutboxRelay
from pydantic import BaseModel

router = APIRouter(tags=["health"])


class HealthOut(BaseModel):
    """How delivery goes; `reason` says why it does not."""

    status: HealthStatus
    reason: str | None


@router.get("/health", responses={503: {"model": HealthOut}})
async def health(request: Request, response: Response) -> HealthOut:
    """Tell of the worker in this process, if there is one; one of its own is asked itself."""
    relay: OutboxRelay | None = request.app.state.relay
    now = relay.health if relay else Health(status=HealthStatus.OK)
    if now.status is HealthStatus.STOPPED:
        response.status_code = 503
    return HealthOut(status=now.status, reason=now.reason)
