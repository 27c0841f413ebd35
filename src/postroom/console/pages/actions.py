"""Actions: a preview of what would be changed, the change, and how far it is."""

from dataclasses import replace
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from postroom.actions import (
    ACTIONS,
    DISCARD,
    Action,
    Chosen,
    choose_group,
    choose_matching,
    choose_named,
)
from postroom.console.filters import read_filter
from postroom.console.forms import Form, read_form
from postroom.console.positions import MOST, read_positions, write_positions
from postroom.console.rendering import inner_path, page, redirect
from postroom.console.state import ConsoleState, state_of
from postroom.errors import ActionError

MATCHING: Final = "matching"
SELECTED: Final = 500
"""How many records may be selected one by one."""
KEPT_FIELDS: Final = ("record", "group", "scope")


async def preview(request: Request) -> Response:
    """Show what would be changed, and ask."""
    action, form = _action(request), await read_form(request)
    chosen = await _chosen(state_of(request), action, form)
    kept = [pair for pair in form.multi_items() if pair[0] in KEPT_FIELDS]
    shown = write_positions(each.position for each in chosen.records)
    return page(
        request,
        "preview.html",
        action=action,
        chosen=chosen,
        fields=[*kept, *read_filter(form.multi_items()).pairs(), ("shown", shown)],
        back=_back(form, action),
    )


async def run(request: Request) -> Response:
    """Change the records that the preview has shown, and that still are as they were."""
    state, action, form = state_of(request), _action(request), await read_form(request)
    shown = read_positions(form.get("shown", ""))
    if not shown:
        raise HTTPException(400, "The form does not say which records the preview has shown.")
    chosen = await _chosen(state, action, form)
    chosen = replace(chosen, records=[each for each in chosen.records if each.position in shown])
    operations = state.operations(request.state.postroom_visitor)
    job = await state.jobs.start(action, chosen, operations, _back(form, action))
    if job.is_finished and job.error is None:
        return redirect(request, job.back, job=job.id)
    return redirect(request, f"/jobs/{job.id}")


async def job(request: Request) -> Response:
    """Show how far a change is."""
    found = state_of(request).jobs.find(request.path_params["job"])
    if found is None:
        text = "This process does not know that job. The audit says what was changed."
        raise HTTPException(404, text)
    refresh = None if found.is_finished else 1
    return page(request, "job.html", job=None, shown=found, refresh=refresh)


def _back(form: Form, action: Action) -> str:
    """Return the path of the page to return to. A discarded record has none."""
    back = inner_path(form.get("back"), "/records")
    is_gone = action is DISCARD and back.startswith("/records/")
    return "/records" if is_gone else back


def _action(request: Request) -> Action:
    action = ACTIONS.get(request.path_params["verb"])
    if action is None:
        raise HTTPException(404, "There is no such action.")
    return action


async def _chosen(state: ConsoleState, action: Action, form: Form) -> Chosen:
    """Choose what the form names: a group, all that match its filter, or single records."""
    if group := form.get("group"):
        return await choose_group(state.inspector, action, group, at_most=MOST)
    if form.get("scope") == MATCHING:
        where = read_filter(form.multi_items())
        if where.problems:
            [(name, problem), *_] = where.problems.items()
            raise HTTPException(400, f"The filter's {name} has to be {problem}.")
        return await choose_matching(state.inspector, action, where.where, at_most=MOST)
    names = form.getlist("record")
    if not names:
        raise ActionError("No record is selected. Select some, or choose all that match.")
    if len(names) > SELECTED:
        raise HTTPException(400, f"Select {SELECTED} records at most, or all that match a filter.")
    return await choose_named(state.inspector, action, names)
