"""`EventBus` and `OutboxMiddleware`: events of a request, flushed before its commit."""

from collections.abc import Mapping, Set
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from postroom.capture.capture import capture, describe_alone
from postroom.capture.outboxes import CaptureSettings, CapturingOutbox, settings_of
from postroom.errors import CaptureError
from postroom.events.codec import Unfit, codec_for, plain_json
from postroom.events.delayed import undelayed
from postroom.events.description import Description, check_event
from postroom.events.envelope import allows_extra_fields, version_name
from postroom.events.event import Event, UntypedEvent
from postroom.events.payload import explain
from postroom.events.snapshot import Snapshot, snapshot

MAX_ROUNDS: Final = 100


class EventBus:
    """Collects the events of one request, in order. `OutboxMiddleware.flush` saves them."""

    def __init__(self) -> None:
        self._events: dict[UUID, Snapshot] = {}

    def emit(self, event: Event) -> None:
        """Add an event as it is now. Raises CaptureError for one that is unfit, or on the bus."""
        check_event(event)
        if event.event_id in self._events:
            raise CaptureError(
                f"the bus has the event {event.event_id} ({type(undelayed(event)).__name__})"
                " already. Make a new one each time that something happens."
            )
        self._events[event.event_id] = snapshot(event)

    def collect(self) -> list[Event]:
        """Return the events, in order, and clear the bus."""
        events = list(self.events)
        self._events.clear()
        return events

    @property
    def events(self) -> tuple[Event, ...]:
        """The events on the bus, in order, as they were emitted."""
        return tuple(taken.event() for taken in self._events.values())

    @property
    def has_events(self) -> bool:
        """Whether events are on the bus."""
        return bool(self._events)

    @property
    def event_count(self) -> int:
        """How many events are on the bus."""
        return len(self._events)


class OutboxMiddleware:
    """Saves the events of a bus, with the request's context, in the request's transaction.

    `outbox` may be left out if the process has one outbox.
    """

    def __init__(self, *, outbox: CapturingOutbox | None = None) -> None:
        self._outbox = outbox

    async def flush(self, session: Session | AsyncSession, bus: EventBus, /, **context: Any) -> int:
        """Add a record per event to the session, and empty the bus; return the number of records.

        Each payload gets an envelope (`event_type`, `aggregate_type`, `aggregate_id`, `timestamp`)
        and the context. A field of a typed event is never replaced: it wins over the envelope, and
        raises CaptureError if the context has its name. What is emitted meanwhile is saved too.
        Neither flushes nor commits the session.
        """
        return self.flush_sync(session, bus, **context)

    def flush_sync(self, session: Session | AsyncSession, bus: EventBus, /, **context: Any) -> int:
        """Save the events of a bus as `flush` does, from sync code."""
        settings = settings_of(self._outbox)
        facts = _context(context)
        saved = 0
        for _ in range(MAX_ROUNDS):
            if not bus.has_events:
                return saved
            saved += _save(session, bus, settings, facts)
        raise CaptureError(
            f"cannot flush: the bus has events after {MAX_ROUNDS} rounds of saving them. Each round"
            " calls a function, such as one of `on_capture`, that emits more: have it end."
        )


def _save(
    session: Session | AsyncSession,
    bus: EventBus,
    settings: CaptureSettings,
    context: Mapping[str, Any],
) -> int:
    """Save the events that are on the bus; those that this makes others emit stay there."""
    taken = list(bus._events.values())
    enveloped = [_envelop(each.given, describe_alone(each, settings), context) for each in taken]
    capture(session, enveloped, settings)
    for each in taken:  # only now: an event that is refused stays on the bus
        bus._events.pop(each.event_id, None)
    return len(taken)


def _envelop(event: Event, description: Description, context: Mapping[str, Any]) -> Description:
    envelope = {
        "event_type": description.event_type,
        "aggregate_type": description.aggregate_type,
        "aggregate_id": description.aggregate_id,
        "timestamp": codec_for(datetime).encode(description.occurred_at),
    }
    if isinstance(bare := undelayed(event), UntypedEvent):
        return description._replace(payload={**description.payload, **envelope, **context})
    _check_extra(type(bare), description)
    own = {*description.payload, version_name(type(bare))}
    _check_context(description, own & context.keys())
    added = {name: value for name, value in envelope.items() if name not in own}
    return description._replace(payload={**description.payload, **added, **context})


def _check_extra(event_class: type, description: Description) -> None:
    if allows_extra_fields(event_class):
        raise CaptureError(
            f'cannot capture {description.event_type}: its class has extra="allow", so what the'
            ' middleware adds would come back as fields of the event. Give the class extra="ignore"'
            ", or dispatch its events with an OutboxEventDispatcher."
        )


def _check_context(description: Description, shared: Set[str]) -> None:
    """Refuse to write over the fields of a class: it could not be rebuilt as it was."""
    if shared:
        name = min(shared)
        raise CaptureError(
            f"cannot capture {description.event_type}: `{name}` is the event's own, and the context"
            " of the flush would be written over it. Leave it out of the context, or rename the"
            " field of the event."
        )


def _context(context: Mapping[str, Any]) -> dict[str, Any]:
    facts = {
        key: str(value) if isinstance(value, UUID) else value for key, value in context.items()
    }
    try:
        return plain_json(facts)
    except Unfit as unfit:
        raise CaptureError(f"cannot flush with this context: {explain(unfit)}") from unfit
