"""The public names, and what importing them costs."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, get_args

import pytest

import postroom
from postroom.capture.outboxes import CapturingOutbox
from postroom.publishers import rabbitmq
from postroom.store.base import Attempt, HeldRecord

NAMES = [
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
IMPORTS = """
import json, sys
before = set(sys.modules)
from postroom import Outbox
print(json.dumps(sorted(sys.modules.keys() - before)))
"""


def test_the_public_names_are_these_and_no_others() -> None:
    assert postroom.__all__ == NAMES == sorted(NAMES)


def test_every_public_name_says_what_it_is_for() -> None:
    assert [name for name in NAMES if not getattr(postroom, name).__doc__] == []


def test_importing_postroom_imports_sqlalchemy_and_nothing_else() -> None:
    """No driver, no framework, and no serialiser: the codec is postroom's own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORTS], check=True, capture_output=True
    )
    imported = {name.partition(".")[0] for name in json.loads(done.stdout)}
    others = imported - sys.stdlib_module_names
    installed = {name for name in others if not name.startswith(("_", "cython"))}
    assert {"postroom", "sqlalchemy"} <= installed
    assert installed <= {"postroom", "sqlalchemy", "greenlet", "typing_extensions"}


def test_the_package_alone_imports_no_sqlalchemy() -> None:
    """So that `postroom --help` does not wait for it."""
    alone = IMPORTS.replace("from postroom import Outbox", "import postroom.errors")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", alone], check=True, capture_output=True
    )
    assert "sqlalchemy" not in json.loads(done.stdout)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'postroom' has no attribute 'Inbx'"):
        postroom.Inbx  # type: ignore[attr-defined]  # noqa: B018
    assert dir(postroom) == NAMES


def test_every_class_that_a_public_signature_names_is_public() -> None:
    """But for the protocol that `Outbox` follows, and for what the relay alone tells a tally."""
    public = {getattr(postroom, name) for name in NAMES} | {
        getattr(rabbitmq, name) for name in rabbitmq.__all__
    }
    named = {each for one in public for each in _named_by(one)}
    own = {each for each in named if each.__module__.startswith("postroom.")}
    assert own - public == {CapturingOutbox, Attempt, HeldRecord}


def _named_by(public: Any) -> Iterator[Any]:
    """Give the classes in the signatures of a function, or of a class's public methods."""
    members = [public, *(vars(public).items() if isinstance(public, type) else ())]
    for member in members:
        name, one = member if isinstance(member, tuple) else ("", member)
        if name.startswith("_") and name != "__init__":
            continue
        function = one.fget if isinstance(one, property) else getattr(one, "__func__", one)
        for hint in getattr(function, "__annotations__", {}).values():
            yield from _parts(hint)


def _parts(hint: Any) -> Iterator[Any]:
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for part in get_args(hint):
        for each in part if isinstance(part, list) else [part]:
            yield from _parts(each)


def test_the_version_is_that_of_the_installed_package() -> None:
    assert postroom.__version__ == version("postroom")
