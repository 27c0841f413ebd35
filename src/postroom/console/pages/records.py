"""Records: the list with its filter, and one record with its journey."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from postroom.actions import ACTIONS
from postroom.console.charts import seconds_text
from postroom.console.documents import document
from postroom.console.filters import STATES, read_filter
from postroom.console.positions import position_of
from postroom.console.rendering import page, short_worker
from postroom.console.state import state_of
from postroom.inspection import Change, RecordDetail, RecordState
from postroom.store.base import Verdict

PAGE: Final = 50
REFRESH: Final = 3


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a record's journey."""

    at: datetime | None
    kind: str
    """How it went: good, bad, warn or quiet; next for what it waits for."""
    title: str
    text: str = ""


async def records(request: Request) -> Response:
    """List records."""
    form = read_filter(request.query_params.multi_items())
    oldest_first = request.query_params.get("order") == "oldest"
    cursor = position_of(request.query_params.get("after"))
    found = None
    if not form.problems:
        found = await state_of(request).inspector.records(
            form.where, cursor=cursor, limit=PAGE, newest_first=not oldest_first
        )
    return page(
        request,
        "records.html",
        status=400 if form.problems else 200,
        form=form,
        states=STATES,
        found=found,
        cursor=cursor,
        oldest_first=oldest_first,
        actions=[each for each in ACTIONS.values() if _is_for(each.changes, form.where.states)],
    )


async def record(request: Request) -> Response:
    """Show one record."""
    inspector = state_of(request).inspector
    detail = await inspector.record(request.path_params["name"])
    changes = await inspector.changes_of(detail.record.id)
    search = request.query_params.get("search", "").strip()[:200]
    payload, headers = document(detail.payload, search), document(detail.headers, search)
    return page(
        request,
        "record.html",
        detail=detail,
        record=detail.record,
        steps=journey(detail, changes),
        payload=payload,
        headers=headers,
        search=search,
        found=payload.count("<mark>") + headers.count("<mark>"),
        trace_id=trace_id(detail.headers),
        actions=[each for each in ACTIONS.values() if detail.record.state in each.changes],
        refresh=REFRESH if detail.record.is_pending else None,
    )


def journey(detail: RecordDetail, changes: tuple[Change, ...]) -> list[Step]:
    """Return the steps of a record, in order of their time; what comes next is last."""
    steps = sorted(_past(detail, changes), key=lambda step: (step.at is None, step.at))
    return [*_occurred(detail), *steps, *_next(detail)]


def trace_id(headers: object) -> str | None:
    """Return the id of the trace that a record was captured in."""
    given = headers.get("traceparent") if isinstance(headers, dict) else None
    parts = given.split("-") if isinstance(given, str) else []
    is_trace = len(parts) >= 4 and len(parts[1]) == 32 and parts[1].isalnum()
    return parts[1] if is_trace else None


def _occurred(detail: RecordDetail) -> Iterator[Step]:
    """Return the first step, whatever the clock of the application and the database say."""
    if detail.occurred_at is not None and detail.occurred_at != detail.record.created_at:
        yield Step(detail.occurred_at, "quiet", "Occurred", "the event's own time")


def _past(detail: RecordDetail, changes: tuple[Change, ...]) -> Iterator[Step]:
    record = detail.record
    yield Step(record.created_at, "quiet", "Saved", "in the transaction of the application")
    for each in detail.attempts:
        took = seconds_text(each.duration.total_seconds())
        worker = f"by {short_worker(each.worker)}, after {took}: {each.reason}"
        if each.verdict == RecordState.FAILED:
            yield Step(each.attempted_at, "bad", f"Attempt {each.retry_count} failed it", worker)
        elif each.verdict == Verdict.QUARANTINED:
            yield Step(each.attempted_at, "bad", "Quarantined", f"by {short_worker(each.worker)}")
        else:
            yield Step(each.attempted_at, "warn", f"Attempt {each.retry_count} refused", worker)
    for change in changes:
        yield Step(change.changed_at, "quiet", f"{change.action} by {change.operator}")
    if record.state is RecordState.PUBLISHED:
        text = ""
        if record.published_at is not None and record.created_at is not None:
            after = (record.published_at - record.created_at).total_seconds()
            text = f"{seconds_text(max(0.0, after))} after it was saved"
        yield Step(record.published_at, "good", "Delivered", text)


def _next(detail: RecordDetail) -> Iterator[Step]:
    if detail.record.state is not RecordState.PUBLISHED:
        kind = "bad" if detail.record.state is RecordState.FAILED else "next"
        yield Step(detail.wait.until, kind, "Waits for", detail.wait.text)


def _is_for(changes: tuple[RecordState, ...], states: frozenset[RecordState]) -> bool:
    """Return whether an action can change records of a list; one without states has all."""
    return not states or bool(states & set(changes))
