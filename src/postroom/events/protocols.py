"""`EventHandler` and `EventDispatcher`: the protocols that applications implement or use."""

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from postroom.events.event import Event

E_contra = TypeVar("E_contra", contravariant=True)


class EventHandler(Protocol[E_contra]):
    """The protocol of handlers: a class with a method `handle`. Register it with `handles`."""

    async def handle(self, event: E_contra) -> Any:
        """Handle an event. The same event may come more than once, and later than it happened."""


class EventDispatcher(Protocol):
    """The protocol of dispatchers, for use cases that do not know where their events go."""

    async def dispatch(self, events: Iterable[Event]) -> None:
        """Dispatch events, in order."""
