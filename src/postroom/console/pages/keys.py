"""Keys: those that are blocked, and one with its records in order."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from postroom.actions import ACTIONS
from postroom.console.filters import MAX_LENGTH
from postroom.console.positions import position_of
from postroom.console.rendering import page
from postroom.console.state import state_of
from postroom.inspection import PENDING, RecordFilter, RecordState
from postroom.record import Key

PAGE: Final = 50
REFRESH: Final = 3
MAX_OFFSET: Final = 1_000_000


async def blocked_keys(request: Request) -> Response:
    """List blocked keys, those with the most waiting records first."""
    offset = min(position_of(request.query_params.get("after")) or 0, MAX_OFFSET)
    found = await state_of(request).inspector.blocked_keys(cursor=offset or None, limit=PAGE)
    return page(request, "keys.html", found=found)


async def key(request: Request) -> Response:
    """Show a key: what blocks it, since when, and what to do."""
    query = request.query_params
    name = Key(_checked(query.get("type", "")), _checked(query.get("id", "")))
    if not name.aggregate_id:
        raise HTTPException(404, "A key has an id, such as the 7 of order/7.")
    inspector = state_of(request).inspector
    report = await inspector.key(name)
    undelivered = RecordFilter(states=PENDING | {RecordState.FAILED}, key=name)
    found = await inspector.records(undelivered, limit=PAGE, newest_first=False)
    pauses = [each for each in await inspector.pauses() if each.key == name]
    first = report.first
    return page(
        request,
        "key.html",
        name=name,
        report=report,
        found=found,
        pause=pauses[0] if pauses else None,
        actions=[
            each
            for each in ACTIONS.values()
            if first is not None and first.state in each.changes and report.blocked is not None
        ],
        refresh=REFRESH,
    )


def _checked(text: str) -> str:
    """Cut a part of a key to what a key can be."""
    return text.replace("\0", "")[:MAX_LENGTH]
