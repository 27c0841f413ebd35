"""Events that are told of later: saved now, delivered from a given moment on."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from postroom.events.event import Event


@dataclass(frozen=True, slots=True)
class Delayed:
    """An event that is not delivered before `until`; a moment that has passed means at once.

    It goes wherever an event goes, and its record is that of the event itself.
    """

    event: Event
    until: datetime

    @property
    def event_id(self) -> UUID:
        """The id of the event."""
        return self.event.event_id

    @property
    def occurred_at(self) -> datetime:
        """When the event happened, whenever it is delivered."""
        return self.event.occurred_at


def undelayed(event: Event) -> Event:
    """Give the event itself, whether or not it is to wait."""
    while isinstance(event, Delayed):
        event = event.event
    return event
