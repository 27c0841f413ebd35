"""Whether events are being delivered, for whoever watches the application."""

from dishka.integrations.fastapi import DishkaRoute, FromDishka
from fastapi import APIRouter, Response, status
from pydantic import BaseModel

from postroom import HealthStatus, OutboxRelay

router = APIRouter(route_class=DishkaRoute)


class HealthView(BaseModel):
    """How the relay is; `reason` says why it is not well."""

    status: HealthStatus
    reason: str | None


@router.get("/health", responses={503: {"model": HealthView}})
async def health(relay: FromDishka[OutboxRelay], response: Response) -> HealthView:
    now = relay.health
    if now.status is not HealthStatus.OK:
        response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    return HealthView(status=now.status, reason=now.reason)
