"""Failures: groups of failed records, and the records of one group."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from postroom.actions import DISCARD, RETRY, SKIP
from postroom.console.positions import position_of
from postroom.console.rendering import page
from postroom.console.state import state_of

PAGE: Final = 50


async def failures(request: Request) -> Response:
    """List groups of one event type and one kind of error."""
    found = await state_of(request).inspector.failures()
    return page(request, "failures.html", found=found, actions=(RETRY, DISCARD))


async def group(request: Request) -> Response:
    """Show a group: its error, its trend, its records."""
    name = request.path_params["group"]
    inspector = state_of(request).inspector
    groups = (await inspector.failures()).groups
    known = next((each for each in groups if each.id == name), None)
    cursor = position_of(request.query_params.get("after"))
    found = await inspector.records_of(name, cursor=cursor, limit=PAGE)
    return page(
        request,
        "group.html",
        status=200 if known else 404,
        group=known,
        found=found,
        cursor=cursor,
        actions=(RETRY, SKIP, DISCARD),
    )
