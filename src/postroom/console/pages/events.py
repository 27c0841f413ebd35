"""Events: types, versions, classes, handlers, routes, rates, and JSON Schemas."""

from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from postroom.console.rendering import page
from postroom.console.state import ConsoleState, state_of
from postroom.publishers.base import RoutesEventTypes


async def events(request: Request) -> Response:
    """List event types."""
    state = state_of(request)
    found = await state.inspector.event_types()
    sample = await state.samples.latest()
    return page(
        request,
        "events.html",
        event_types=found,
        counts={each.event_type: each for each in sample.overview.event_types},
        routes={each.name: routes_of(state, each.name) for each in found},
        paused={each.event_type for each in await state.inspector.pauses()},
    )


async def event(request: Request) -> Response:
    """Show one event type with its JSON Schema."""
    name = request.query_params.get("type", "")
    state = state_of(request)
    known = {each.name: each for each in await state.inspector.event_types()}
    if name not in known:
        raise HTTPException(404, f"No event type is called {name[:200]!r}.")
    pauses = [each for each in await state.inspector.pauses() if each.event_type == name]
    return page(
        request,
        "event.html",
        event_type=known[name],
        routes=routes_of(state, name),
        pause=pauses[0] if pauses else None,
    )


def routes_of(state: ConsoleState, event_type: str) -> Sequence[str]:
    """Return where records of a type go, as far as the publisher of the relay can say."""
    if state.relay is None or not isinstance(state.relay.publisher, RoutesEventTypes):
        return ()
    return state.relay.publisher.routes_of(event_type)
