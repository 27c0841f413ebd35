"""`AggregateRoot`: an entity that raises events."""

from itertools import count
from operator import itemgetter
from typing import Any, Protocol
from uuid import UUID

from sqlalchemy.orm import object_session
from sqlalchemy.orm.base import DEFAULT_STATE_ATTR

from postroom.errors import CaptureError
from postroom.events.description import check_event
from postroom.events.event import Event
from postroom.events.keys import check_key
from postroom.events.snapshot import Snapshot, snapshot

RaisedEvent = tuple[int, Snapshot]
RAISE_LISTENER = "postroom.raise_listener"
"""Where a session keeps the listener that is told when one of its aggregates raises an event."""

_numbers = count()


class RaiseNumber(int):
    """An event's place in the order of raising, across aggregates.

    A copy gets the next number, and so does what is unpickled: it may be from another process.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _next_number, ()


def _next_number() -> RaiseNumber:
    return RaiseNumber(next(_numbers))


class RaiseListener(Protocol):
    """Is told of aggregates with events to capture."""

    def note(self, aggregate: "AggregateRoot") -> None:
        """Remember that this aggregate has events."""


class AggregateRoot:
    """Base class or mixin of entities that raise events. They may be mapped in any way, or not.

    A class attribute `aggregate_type` names the aggregate in the keys of events that do not say it;
    without one, the name of the class does.
    """

    def raise_event(self, event: Event) -> None:
        """Raise an event. It is saved as it is now, with the aggregate, if sessions are captured.

        Raises CaptureError if it cannot be saved, or was raised before.
        """
        check_event(event)
        raised = self._by_id()
        if event.event_id in raised:
            raise CaptureError(
                f"{type(self).__name__} has raised the event {event.event_id} already. Make a new"
                " one each time that something happens."
            )
        taken = snapshot(event)
        is_mapped = hasattr(self, DEFAULT_STATE_ATTR)
        if is_mapped:
            check_key(type(self), taken)
        raised[taken.event_id] = _next_number(), taken
        session = object_session(self) if is_mapped else None
        listener = session.info.get(RAISE_LISTENER) if session is not None else None
        if listener is not None:
            listener.note(self)

    @property
    def domain_events(self) -> tuple[Event, ...]:
        """The events that were raised and are not saved yet, in order, as they were then."""
        in_order = sorted(self._by_id().values(), key=itemgetter(0))
        return tuple(taken.event() for _, taken in in_order)

    def collect_events(self) -> list[Event]:
        """Return the events, in order, and clear them."""
        events = list(self.domain_events)
        self.clear_events()
        return events

    def clear_events(self) -> None:
        """Drop the events: they will not be saved."""
        self._by_id().clear()

    def _by_id(self) -> dict[UUID, RaisedEvent]:
        # In __dict__, because an ORM makes instances without calling __init__, and because an
        # annotated class attribute would look like a column or a field.
        raised: dict[UUID, RaisedEvent] = self.__dict__.setdefault("_postroom_raised", {})
        return raised

    def _take(self, taken: Snapshot) -> None:
        del self._by_id()[taken.event_id]

    def _give_back(self, number: int, taken: Snapshot) -> None:
        self._by_id()[taken.event_id] = number, taken
