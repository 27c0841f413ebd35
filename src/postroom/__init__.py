"""The transactional outbox for Python: what you commit gets delivered."""

from postroom.capture.bus import EventBus, OutboxMiddleware
from postroom.capture.dispatcher import OutboxEventDispatcher
from postroom.capture.interceptor import DomainEventOutboxInterceptor
from postroom.errors import (
    CaptureError,
    CaptureWarning,
    ConfigurationError,
    EventDefinitionError,
    PayloadError,
    PostroomError,
    SchemaError,
    UnknownEventTypeError,
)
from postroom.events.aggregate import AggregateRoot
from postroom.events.discovery import auto_discover_handlers
from postroom.events.event import DomainEvent, Event, UntypedEvent
from postroom.events.protocols import EventDispatcher, EventHandler
from postroom.events.registry import EventRegistry, get_handlers_for, handles, upcasts
from postroom.events.serialization import deserialize_event, serialize_event
from postroom.outbox import Outbox, map_outbox_table
from postroom.record import OutboxRecord, Status

__all__ = [
    "AggregateRoot",
    "CaptureError",
    "CaptureWarning",
    "ConfigurationError",
    "DomainEvent",
    "DomainEventOutboxInterceptor",
    "Event",
    "EventBus",
    "EventDefinitionError",
    "EventDispatcher",
    "EventHandler",
    "EventRegistry",
    "Outbox",
    "OutboxEventDispatcher",
    "OutboxMiddleware",
    "OutboxRecord",
    "PayloadError",
    "PostroomError",
    "SchemaError",
    "Status",
    "UnknownEventTypeError",
    "UntypedEvent",
    "auto_discover_handlers",
    "deserialize_event",
    "get_handlers_for",
    "handles",
    "map_outbox_table",
    "serialize_event",
    "upcasts",
]
