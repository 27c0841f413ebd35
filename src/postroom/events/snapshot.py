"""`Snapshot`: an event as it was when it was raised or emitted."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from postroom.errors import CaptureError
from postroom.events.codec import same
from postroom.events.delayed import Delayed, undelayed
from postroom.events.description import Description, describe
from postroom.events.event import Event, UntypedEvent
from postroom.events.payload import decode_event, encode_event


class Snapshot(NamedTuple):
    """An event and its description of that moment, which is what is saved.

    What the event holds may change until then: a list of the aggregate, for example.
    """

    given: Event
    description: Description

    @property
    def event_id(self) -> UUID:
        """The id of the event."""
        return self.description.event_id

    @property
    def occurred_at(self) -> datetime:
        """When the event happened."""
        return self.description.occurred_at

    def event(self) -> Event:
        """Give the event; if what it holds has changed, an equal of what it was."""
        bare, payload = undelayed(self.given), self.description.payload
        if _cannot_change(bare, payload) or _is_still(bare, payload):
            return self.given
        return _rebuilt(self.given, payload)


def snapshot(event: Event) -> Snapshot:
    """Describe an event as it is now. Raises CaptureError if no record can hold it."""
    return Snapshot(event, describe(event))


def _cannot_change(event: Event, payload: Mapping[str, Any]) -> bool:
    """Whether an event is frozen and holds no list or other object: most are like that."""
    options = getattr(event, "__dataclass_params__", None)
    if options is None or not options.frozen or isinstance(event, UntypedEvent):
        return False
    return {list, dict}.isdisjoint(map(type, payload.values()))


def _is_still(event: Event, payload: Mapping[str, Any]) -> bool:
    try:
        return same(encode_event(event), payload)
    except CaptureError:
        return False


def _rebuilt(event: Any, payload: Any) -> Event:
    if isinstance(event, Delayed):
        return replace(event, event=_rebuilt(event.event, payload))
    if isinstance(event, UntypedEvent):
        return replace(event, payload=deepcopy(payload))
    rebuilt: Event = decode_event(type(event), payload)
    return rebuilt
