"""Turns events into records and adds them to a session."""

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from postroom.capture.databases import check_database
from postroom.capture.outboxes import CaptureCallback, CaptureSettings
from postroom.capture.repeats import note_captured, refuse_repeats
from postroom.capture.targets import stack_level
from postroom.errors import CaptureError, CaptureWarning
from postroom.events.codec import Unfit, plain_json
from postroom.events.delayed import undelayed
from postroom.events.description import Description, describe, event_list
from postroom.events.event import Event, UntypedEvent
from postroom.events.keys import why_key_is_missed
from postroom.events.payload import explain, to_json
from postroom.events.snapshot import Snapshot
from postroom.record import OutboxRecord


def capture(
    session: Session | AsyncSession,
    descriptions: Sequence[Description],
    settings: CaptureSettings,
    aggregates: Collection[type] = (),
) -> list[OutboxRecord]:
    """Add a record per event to the session, in order: all of them, or none and an error.

    `aggregates` are the classes of those that raised the events, if the session saves them too. It
    never flushes, commits or talks to anybody.
    """
    if not descriptions:
        return []
    sync = _sync_session(session)
    check_database(sync, descriptions[0].event_type, aggregates or [settings.record])
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
            _check_callback(callback, record, settings)
    return records


def describe_for(event: Event, settings: CaptureSettings) -> Description:
    """Describe an event to capture; refuse it when its class's name is another class's too."""
    taken = event if isinstance(event, Snapshot) else None
    bare = undelayed(event if taken is None else taken.given)
    if not isinstance(bare, UntypedEvent):
        settings.registry.register(type(bare))
    return describe(event) if taken is None else taken.description


def describe_all(events: Iterable[Event], settings: CaptureSettings) -> list[Description]:
    """Describe several events to capture; refuse one event that is given instead of a list."""
    return [describe_alone(event, settings) for event in event_list(events)]


def describe_alone(event: Event, settings: CaptureSettings) -> Description:
    """Describe an event to capture without an aggregate; warn if it lacks the key of one."""
    description = describe_for(event, settings)
    if description.aggregate_id is None:
        bare = undelayed(event.given if isinstance(event, Snapshot) else event)
        if (reason := why_key_is_missed(bare, description)) is not None:
            warnings.warn(
                f"{description.event_type} {description.event_id} has no key, so it is in no order."
                f" {reason}",
                CaptureWarning,
                stacklevel=stack_level(),
            )
    return description


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
    return _plain("cannot capture with these headers:", dict(given), settings)


def _check_callback(
    callback: CaptureCallback, record: OutboxRecord, settings: CaptureSettings
) -> None:
    """Refuse headers that a callback has left as the database cannot hold them."""
    headers: Any = record.headers
    name = getattr(callback, "__qualname__", type(callback).__name__)
    its = f"cannot capture {record.event_type} with the headers that {name} left it:"
    if type(headers) is not dict:
        raise CaptureError(f"{its} they are a {type(headers).__name__}. Leave it a dict.")
    record.headers = _plain(its, headers, settings)


def _plain(its: str, headers: dict[str, Any], settings: CaptureSettings) -> dict[str, Any]:
    """Return headers as JSON has them; refuse what it cannot hold."""
    if not headers:
        return {}
    try:
        plain: dict[str, Any] = plain_json(headers)
    except Unfit as unfit:
        raise CaptureError(f"{its} {explain(unfit)}") from unfit
    _check_size(f"{its} the headers take", plain, settings.max_header_bytes)
    return plain


def _check_size(beginning: str, document: Mapping[str, Any], limit: int) -> None:
    size = len(to_json(document).encode())
    if size > limit:
        raise CaptureError(
            f"{beginning} {size:,} bytes, and the outbox holds {limit:,}."
            " Store the bulk elsewhere and send its address, or raise the limit of the Outbox."
        )
