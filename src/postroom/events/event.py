"""`DomainEvent` and `UntypedEvent`: the classes of events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from postroom.events.definition import check_definition
from postroom.events.options import EventOptions
from postroom.identity import uuid7


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


@runtime_checkable
class Event(Protocol):
    """The protocol of events: `DomainEvent`, `PydanticEvent`, `UntypedEvent` and `Delayed`."""

    @property
    def event_id(self) -> UUID:
        """The id of the event, of its record, and of the message that is delivered."""

    @property
    def occurred_at(self) -> datetime:
        """When the event happened. It has a time zone."""


@dataclass(frozen=True, kw_only=True)
class DomainEvent:
    """Base class of typed events: frozen dataclasses, named in the past tense.

    Class keywords set how the event is stored. Subclasses inherit all of them but `name`. Raises
    EventDefinitionError for a wrong keyword, and for a field of a type that cannot be kept.

    - `name`: the event type
    - `naming`: how the event type is made of the class name if there is no `name`: "class" (the
      name itself, the default), "qualified" (with its module) or "dotted" (`OrderItemAdded`
      becomes `order_item.added`)
    - `version`: the version of the payload (1)
    - `aggregate`: the type of the aggregate; or a class attribute or property `aggregate_type`
    - `key`: the field that has the id of the aggregate; or a property `aggregate_id`. Events of one
      aggregate are delivered in order
    - `case`: "snake" (the default) or "camel" names in the payload
    - `rename`: other names in the payload for single fields: `{field: name}`
    """

    event_id: UUID = field(default_factory=uuid7)
    occurred_at: datetime = field(default_factory=now)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__()
        EventOptions.declare(cls, keywords)
        check_definition(cls)


@dataclass(frozen=True, kw_only=True)
class UntypedEvent:
    """An event without a class: the event type is a name, the payload a dict of JSON values."""

    event_type: str
    payload: Mapping[str, Any]
    aggregate_type: str | None = None
    aggregate_id: UUID | int | str | None = None
    event_version: int = 1
    event_id: UUID = field(default_factory=uuid7)
    occurred_at: datetime = field(default_factory=now)
