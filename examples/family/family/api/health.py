"""Tells whoever runs the application how it is."""

from typing import Any

from dishka import AsyncContainer
from fastapi import APIRouter, Response, status

from postroom import HealthStatus, OutboxEventPublisher


def health_router(container: AsyncContainer) -> APIRouter:
    """Make the router for `/health`."""
    router = APIRouter()

    @router.get("/health")
    async def health(response: Response) -> dict[str, Any]:
        """Say how publishing goes. An outage passes by itself; a publisher that ended does not."""
        publisher = (await container.get(OutboxEventPublisher)).health
        if publisher.status is HealthStatus.STOPPED:
            response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
        return {"status": publisher.status, "reason": publisher.reason}

    return router
