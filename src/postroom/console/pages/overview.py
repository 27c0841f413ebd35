"""The overview: is everything all right, and if not, where to look."""

from starlette.requests import Request
from starlette.responses import Response

from postroom.console.charts import charts
from postroom.console.rendering import page, redirect
from postroom.console.state import state_of
from postroom.inspection import parse_key, short_names

REFRESH = 2
"""Seconds between two looks of the browser."""


async def overview(request: Request) -> Response:
    """Show counts, charts, problems, failures, blocked keys and workers."""
    state = state_of(request)
    sample = await state.samples.latest()
    workers = sample.overview.workers
    return page(
        request,
        "overview.html",
        overview=sample.overview,
        names=dict(zip((each.name for each in workers), short_names(workers), strict=True)),
        charts=charts(state.samples.points),
        failures=sample.failures,
        blocked=sample.blocked,
        refresh=REFRESH,
    )


async def go(request: Request) -> Response:
    """Send the browser to what was typed into the search: a record, a key, or an event type."""
    text = request.query_params.get("q", "").strip()
    if not text:
        return redirect(request, "/records")
    if "/" in text:
        key = parse_key(text)
        return redirect(request, "/key", type=key.aggregate_type, id=key.aggregate_id)
    digits = text.replace("-", "").lower()
    is_position = text.isdecimal() and len(text) <= 18
    is_id = len(digits) >= 8 and set(digits) <= set("0123456789abcdef")
    if is_position or is_id:
        return redirect(request, f"/records/{text}")
    return redirect(request, "/records", type=text if "*" in text else f"*{text}*")
