"""Step 1: something happened. The classes that events are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from postroom.events.options import EventOptions
from postroom.identity import uuid7


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


@runtime_checkable
class Event(Protocol):
    """What every event has: a dataclass, a pydantic model or an `UntypedEvent`."""

    @property
    def event_id(self) -> UUID: ...
    @property
    def occurred_at(self) -> datetime: ...


@dataclass(frozen=True, kw_only=True)
class DomainEvent:
    """Base of typed events: frozen dataclasses, named in the past tense.

    Class keywords say how the event is stored; all but `name` are inherited:

    - `name`: the event type; otherwise `naming` makes one of the class's name: "class" (as it is,
      the default), "qualified" (with its module), "dotted" (`OrderItemAdded`: `order_item.added`)
    - `version`: of the payload, 1 unless told otherwise
    - `aggregate` and `key`: the aggregate's type, and the field that holds its id; order is kept
      within the two. A class attribute or property `aggregate_type` / `aggregate_id` does the same.
    - `case`: "snake" or "camel" names in the payload; `rename` gives single fields another name
    """

    event_id: UUID = field(default_factory=uuid7)
    occurred_at: datetime = field(default_factory=now)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__()
        EventOptions.declare(cls, keywords)


@dataclass(frozen=True, kw_only=True)
class UntypedEvent:
    """An event without a class of its own: the type is a name, the payload a dict."""

    event_type: str
    payload: Mapping[str, Any]
    aggregate_type: str | None = None
    aggregate_id: UUID | int | str | None = None
    event_version: int = 1
    event_id: UUID = field(default_factory=uuid7)
    occurred_at: datetime = field(default_factory=now)
