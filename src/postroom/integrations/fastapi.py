"""FastAPI: dependencies that give each request its bus, and the middleware that flushes it."""

from postroom.capture.bus import EventBus, OutboxMiddleware


async def get_event_bus() -> EventBus:
    """Depend on this for the event bus of a request: `Depends(get_event_bus)`."""
    return EventBus()


async def get_outbox_middleware() -> OutboxMiddleware:
    """Depend on this for what flushes the bus: `Depends(get_outbox_middleware)`."""
    return OutboxMiddleware()
