"""Workers and the partitions that they lease; pause, resume and drain."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from postroom.console.forms import Form, read_form
from postroom.console.rendering import inner_path, page, redirect
from postroom.console.state import state_of
from postroom.inspection import drain_effect, short_names
from postroom.record import PARTITIONS, Key

REFRESH: Final = 3
LONGEST: Final = {"event_type": 255, "key_type": 128, "key_id": 512}
"""Characters of the longest value, as in the table of records."""


async def workers(request: Request) -> Response:
    """List workers, with the partitions that each holds the lease of."""
    inspector = state_of(request).inspector
    found = await inspector.workers()
    holders = {partition: each for each in found for partition in each.partitions}
    return page(
        request,
        "workers.html",
        workers=found,
        names=dict(zip((each.name for each in found), short_names(found), strict=True)),
        effects={each.name: drain_effect(each, found) for each in found},
        holders=[holders.get(partition) for partition in range(PARTITIONS)],
        pauses=await inspector.pauses(),
        refresh=REFRESH,
    )


async def pause(request: Request) -> Response:
    """Pause an event type, a key, or the outbox."""
    form = await read_form(request)
    operations = state_of(request).operations(request.state.postroom_visitor)
    event_type, key = _scope(form)
    reason = form.get("reason", "").strip()[:500] or None
    await operations.pause(event_type=event_type, key=key, reason=reason)
    return _changed(request, form)


async def resume(request: Request) -> Response:
    """End the pause of just that."""
    form = await read_form(request)
    event_type, key = _scope(form)
    operations = state_of(request).operations(request.state.postroom_visitor)
    await operations.resume(event_type=event_type, key=key)
    return _changed(request, form)


async def drain(request: Request) -> Response:
    """Have a worker finish what is in flight, and take no more."""
    form = await read_form(request)
    operations = state_of(request).operations(request.state.postroom_visitor)
    await operations.drain(form.get("worker", ""))
    return _changed(request, form)


async def undrain(request: Request) -> Response:
    """Have a drained worker take records again."""
    form = await read_form(request)
    operations = state_of(request).operations(request.state.postroom_visitor)
    await operations.undrain(form.get("worker", ""))
    return _changed(request, form)


def _changed(request: Request, form: Form) -> Response:
    """Return to the page that a change was made on, which shows it."""
    state_of(request).samples.expire()
    return redirect(request, inner_path(form.get("back"), "/workers"))


def _scope(form: Form) -> tuple[str | None, Key | None]:
    """Return the event type or the key that is to be paused or resumed; neither: the outbox."""
    given = {name: value for name, value in form.multi_items() if name in LONGEST}
    has_key = "key_id" in given or "key_type" in given
    for name, value in given.items():
        if len(value) > LONGEST[name] or (not value and name != "key_type"):
            raise HTTPException(400, f"{name} has to be a text of 1 to {LONGEST[name]} characters.")
    if has_key and ("key_id" not in given or "event_type" in given):
        raise HTTPException(400, "Give an event type, or a key with its id.")
    key = Key(given.get("key_type", ""), given["key_id"]) if has_key else None
    return given.get("event_type"), key
