"""`Delayed`: an event that is saved now and delivered from a given time on."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from postroom.events.event import Event


@dataclass(frozen=True, slots=True)
class Delayed:
    """An event that is delivered at the time `until`, or later. A time in the past means at once.

    Capture it like any event. Its record is that of the event itself, with the time in `due_at`.
    """

    event: Event
    until: datetime

    @property
    def event_id(self) -> UUID:
        """The id of the event."""
        return self.event.event_id

    @property
    def occurred_at(self) -> datetime:
        """When the event happened."""
        return self.event.occurred_at


def undelayed(event: Event) -> Event:
    """Give the event itself, whether or not it is to wait."""
    while isinstance(event, Delayed):
        event = event.event
    return event
