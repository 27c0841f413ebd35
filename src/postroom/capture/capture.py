"""Turns events into records and adds them to a session."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from postroom.capture.outboxes import CaptureSettings
from postroom.capture.repeats import note_captured, refuse_repeats
from postroom.errors import CaptureError
from postroom.events.codec import Unfit, check_json
from postroom.events.delayed import undelayed
from postroom.events.description import Description, describe, event_list
from postroom.events.event import Event, UntypedEvent
from postroom.events.payload import explain, to_json
from postroom.record import OutboxRecord


def capture(
    session: Session | AsyncSession, descriptions: Sequence[Description], settings: CaptureSettings
) -> list[OutboxRecord]:
    """Add a record per event to the session, in order: all of them, or none and an error.

    It never flushes, commits or talks to anybody.
    """
    sync = _sync_session(session)
    refuse_repeats(sync, descriptions, settings.record)
    records = make_records(descriptions, settings)
    sync.add_all(records)
    note_captured(sync, records)
    return records


def make_records(
    descriptions: Iterable[Description], settings: CaptureSettings
) -> list[OutboxRecord]:
    """Make a record per event, in order; refuse payloads and headers over their limit."""
    headers = _headers(settings)
    records = [_record(description, headers, settings) for description in descriptions]
    for callback in settings.callbacks:
        for record in records:
            callback(record)
    return records


def describe_for(event: Event, settings: CaptureSettings) -> Description:
    """Describe an event to capture; refuse it when its class's name is another class's too."""
    bare = undelayed(event)
    if not isinstance(bare, UntypedEvent):
        settings.registry.register(type(bare))
    return describe(event)


def describe_all(events: Iterable[Event], settings: CaptureSettings) -> list[Description]:
    """Describe several events to capture; refuse one event that is given instead of a list."""
    return [describe_for(event, settings) for event in event_list(events)]


def _sync_session(session: Any) -> Session:
    if isinstance(session, (scoped_session, async_scoped_session)):
        session = session()
    sync: Session = session.sync_session if isinstance(session, AsyncSession) else session
    return sync


def _record(
    description: Description, headers: Mapping[str, Any], settings: CaptureSettings
) -> OutboxRecord:
    its = f"cannot capture {description.event_type}: its payload takes"
    _check_size(its, description.payload, settings.max_payload_bytes)
    record = settings.record(
        id=description.event_id,
        event_type=description.event_type,
        event_version=description.event_version,
        aggregate_type=description.aggregate_type,
        aggregate_id=description.aggregate_id,
        payload=description.payload,
        headers=dict(headers),
        occurred_at=description.occurred_at,
        max_retries=settings.max_retries,
    )
    if description.due_at is not None:
        record.ready, record.due_at = False, description.due_at
    return record


def _headers(settings: CaptureSettings) -> dict[str, Any]:
    given = settings.headers()
    if not isinstance(given, Mapping):
        raise CaptureError(
            f"cannot capture: the `headers` of the Outbox returned a {type(given).__name__}. It has"
            " to return a mapping, such as {}."
        )
    headers = dict(given)
    if not headers:
        return headers
    try:
        check_json(headers)
    except Unfit as unfit:
        raise CaptureError(f"cannot capture with these headers: {explain(unfit)}") from unfit
    _check_size("cannot capture: the headers take", headers, settings.max_header_bytes)
    return headers


def _check_size(beginning: str, document: Mapping[str, Any], limit: int) -> None:
    size = len(to_json(document).encode())
    if size > limit:
        raise CaptureError(
            f"{beginning} {size:,} bytes, and the outbox holds {limit:,}."
            " Store the bulk elsewhere and send its address, or raise the limit of the Outbox."
        )
