"""The public names. `postroom` imports them from here when the first one is used."""

from postroom.capture.bus import EventBus, OutboxMiddleware
from postroom.capture.dispatcher import OutboxEventDispatcher
from postroom.capture.in_process import InProcessEventDispatcher
from postroom.capture.interceptor import DomainEventOutboxInterceptor
from postroom.clock import Clock
from postroom.database.errors import database_outage
from postroom.errors import (
    CaptureError,
    CaptureWarning,
    ConfigurationError,
    ConnectionLostError,
    EventDefinitionError,
    InboxError,
    OutageError,
    PayloadError,
    PostroomError,
    SchemaError,
    UndeliverableError,
    UnknownEventTypeError,
)
from postroom.events.aggregate import AggregateRoot
from postroom.events.delayed import Delayed
from postroom.events.discovery import auto_discover_handlers
from postroom.events.event import DomainEvent, Event, UntypedEvent
from postroom.events.protocols import EventDispatcher, EventHandler
from postroom.events.registry import EventRegistry, HandlerEntry, get_handlers_for, handles, upcasts
from postroom.events.serialization import deserialize_event, serialize_event
from postroom.inbox.inbox import Inbox
from postroom.outbox import Outbox, map_outbox_table
from postroom.publishers.base import (
    Delivered,
    NamesDestinations,
    Outage,
    Outcome,
    Postponed,
    Publisher,
    Refused,
    ReportsOutages,
    ReportsWaitingRoutes,
    UsesOutbox,
    WaitingRoute,
)
from postroom.publishers.handlers.publisher import HandlersPublisher
from postroom.publishers.handlers.scopes import Container
from postroom.publishers.memory import MemoryPublisher, MemoryQueue, Message
from postroom.record import ClaimedRecord, Key, OutboxRecord, Status
from postroom.relay.health import Health, HealthStatus, Tally
from postroom.relay.observer import RelayObserver
from postroom.relay.relay import OutboxEventPublisher, OutboxRelay
from postroom.relay.retry import RetrySchedule
from postroom.store.base import Verdict
from postroom.wakeup.notifier import Notifier

__all__ = [
    "AggregateRoot",
    "CaptureError",
    "CaptureWarning",
    "ClaimedRecord",
    "Clock",
    "ConfigurationError",
    "ConnectionLostError",
    "Container",
    "Delayed",
    "Delivered",
    "DomainEvent",
    "DomainEventOutboxInterceptor",
    "Event",
    "EventBus",
    "EventDefinitionError",
    "EventDispatcher",
    "EventHandler",
    "EventRegistry",
    "HandlerEntry",
    "HandlersPublisher",
    "Health",
    "HealthStatus",
    "InProcessEventDispatcher",
    "Inbox",
    "InboxError",
    "Key",
    "MemoryPublisher",
    "MemoryQueue",
    "Message",
    "NamesDestinations",
    "Notifier",
    "Outage",
    "OutageError",
    "Outbox",
    "OutboxEventDispatcher",
    "OutboxEventPublisher",
    "OutboxMiddleware",
    "OutboxRecord",
    "OutboxRelay",
    "Outcome",
    "PayloadError",
    "Postponed",
    "PostroomError",
    "Publisher",
    "Refused",
    "RelayObserver",
    "ReportsOutages",
    "ReportsWaitingRoutes",
    "RetrySchedule",
    "SchemaError",
    "Status",
    "Tally",
    "UndeliverableError",
    "UnknownEventTypeError",
    "UntypedEvent",
    "UsesOutbox",
    "Verdict",
    "WaitingRoute",
    "auto_discover_handlers",
    "database_outage",
    "deserialize_event",
    "get_handlers_for",
    "handles",
    "map_outbox_table",
    "serialize_event",
    "upcasts",
]
