"""What applications implement or ask for: handlers and dispatchers of events."""

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from postroom.events.event import Event

E_contra = TypeVar("E_contra", contravariant=True)


class EventHandler(Protocol[E_contra]):
    """Does something about one kind of event."""

    async def handle(self, event: E_contra) -> Any:
        """Handle one event. It may come again, and some time after it happened."""


class EventDispatcher(Protocol):
    """Takes the events of a use case off its hands."""

    async def dispatch(self, events: Iterable[Event]) -> None:
        """Take these events, in order."""
