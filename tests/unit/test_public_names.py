"""The public names, and what importing them costs."""

import json
import subprocess
import sys
from importlib.metadata import packages_distributions

import postroom

NAMES = [
    "AggregateRoot",
    "CaptureError",
    "CaptureWarning",
    "ClaimedRecord",
    "ConfigurationError",
    "ConnectionLostError",
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
    "HandlersPublisher",
    "Health",
    "HealthStatus",
    "InProcessEventDispatcher",
    "Inbox",
    "InboxError",
    "MemoryPublisher",
    "MemoryQueue",
    "Message",
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
    "RetrySchedule",
    "SchemaError",
    "Status",
    "UndeliverableError",
    "UnknownEventTypeError",
    "UntypedEvent",
    "auto_discover_handlers",
    "database_outage",
    "deserialize_event",
    "get_handlers_for",
    "handles",
    "map_outbox_table",
    "serialize_event",
    "upcasts",
]
IMPORTS = """
import json, sys
before = set(sys.modules)
import postroom
print(json.dumps(sorted(sys.modules.keys() - before)))
"""


def test_the_public_names_are_these_and_no_others() -> None:
    assert postroom.__all__ == NAMES


def test_the_public_names_are_sorted_and_there() -> None:
    assert sorted(postroom.__all__) == postroom.__all__
    assert all(getattr(postroom, name) is not None for name in postroom.__all__)


def test_every_public_name_says_what_it_is_for() -> None:
    assert [name for name in NAMES if not getattr(postroom, name).__doc__] == []


def test_importing_postroom_imports_sqlalchemy_and_nothing_else() -> None:
    """No driver, no framework, and no serialiser: the codec is postroom's own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORTS], check=True, capture_output=True
    )
    imported = {name.partition(".")[0] for name in json.loads(done.stdout)}
    installed = imported & packages_distributions().keys()
    assert {"postroom", "sqlalchemy"} <= imported
    assert installed <= {"postroom", "sqlalchemy", "greenlet", "typing_extensions"}
