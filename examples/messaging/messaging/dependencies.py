"""The dependencies of requests: session, event bus, transaction."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import uuid4

from fastapi import Depends, Header, Query, Request
from postroom import EventBus, OutboxMiddleware
from postroom.integrations.fastapi import get_event_bus, outbox_middleware
from sqlalchemy.ext.asyncio import AsyncSession

from messaging.models import outbox
from messaging.user import CurrentUser


async def get_db(request: Request) -> AsyncIterator[AsyncSession]:
    """Provide the session of a request; what is not committed is rolled back at its end."""
    async with request.app.state.sessions() as session:
        yield session


async def get_context(
    user: CurrentUser,
    request_id: Annotated[str | None, Header(alias="X-Request-Id", max_length=100)] = None,
) -> dict[str, Any]:
    """Return what every event of a request contains: the ids of user and request."""
    return {"user_id": user.id, "request_id": request_id or str(uuid4())}


Database = Annotated[AsyncSession, Depends(get_db)]
Bus = Annotated[EventBus, Depends(get_event_bus)]
Middleware = Annotated[OutboxMiddleware, Depends(outbox_middleware(outbox))]
Context = Annotated[dict[str, Any], Depends(get_context)]


class RequestTransaction:
    """The transaction of a request: its changes and its events."""

    def __init__(self, db: Database, bus: Bus, outbox: Middleware, context: Context) -> None:
        self.db = db
        self.bus = bus
        self.outbox = outbox
        self.context = context

    async def commit(self) -> None:
        """Save both, or neither. The commit wakes the worker."""
        await self.outbox.flush(self.db, self.bus, **self.context)
        await self.db.commit()


Transaction = Annotated[RequestTransaction, Depends()]


@dataclass(frozen=True, slots=True)
class PageOf:
    """Which part of a list is asked for."""

    limit: Annotated[int, Query(ge=1, le=100)] = 50
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0


Part = Annotated[PageOf, Depends()]
