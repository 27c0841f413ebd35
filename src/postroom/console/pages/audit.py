"""The audit: which operator changed what, and when."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from postroom.console.positions import position_of
from postroom.console.rendering import page
from postroom.console.state import state_of

PAGE: Final = 50


async def audit(request: Request) -> Response:
    """List what operators have changed, the newest first."""
    before = position_of(request.query_params.get("before"))
    changes = await state_of(request).inspector.audit(limit=PAGE, before=before)
    more = changes[-1].id if len(changes) == PAGE else None
    return page(request, "audit.html", changes=changes, before=before, more=more)
