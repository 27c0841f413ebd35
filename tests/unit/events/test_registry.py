"""The registry: handlers in order, classes by name."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from postroom import (
    DomainEvent,
    EventDefinitionError,
    EventDispatcher,
    EventHandler,
    EventRegistry,
    UnknownEventTypeError,
    UntypedEvent,
    deserialize_event,
    get_handlers_for,
    handles,
    serialize_event,
)
from postroom.events.event import Event
from postroom.events.registry import HandlerEntry, default_registry
from postroom.identity import uuid7


@dataclass(frozen=True, kw_only=True)
class DoorOpened(DomainEvent):
    door: str = "front"


@dataclass(frozen=True, kw_only=True)
class GateOpened(DoorOpened):
    pass


@dataclass(frozen=True, kw_only=True)
class DoorClosed(DomainEvent):
    pass


class Ring:
    async def handle(self, event: DoorOpened) -> None: ...


class Greet:
    async def handle(self, event: DoorOpened) -> None: ...


class Log:
    async def handle(self, event: UntypedEvent) -> None: ...


@pytest.fixture
def registry() -> EventRegistry:
    return EventRegistry()


@pytest.mark.requirement("B1")
async def test_a_handler_is_whatever_handles() -> None:
    class Counter:
        seen = 0

        async def handle(self, event: DomainEvent) -> None:
            self.seen += 1

    counter = Counter()
    handler: EventHandler[DoorOpened] = counter  # mypy proves the protocol
    await handler.handle(DoorOpened())
    assert counter.seen == 1


@pytest.mark.requirement("B1")
async def test_a_dispatcher_is_whatever_dispatches() -> None:
    class Recorder:
        def __init__(self) -> None:
            self.events: list[Event] = []

        async def dispatch(self, events: Any) -> None:
            self.events.extend(events)

    recorder = Recorder()
    dispatcher: EventDispatcher = recorder
    events = [DoorOpened(), DoorOpened()]
    await dispatcher.dispatch(iter(events))
    assert recorder.events == events


@pytest.mark.requirement("B2", "B3")
def test_handles_registers_the_class_and_gives_it_back(registry: EventRegistry) -> None:
    assert registry.get_handlers_for(DoorOpened) == registry.get_handlers_for("nobody.cares") == []
    assert registry.handles(DoorOpened)(Ring) is Ring
    registry.get_handlers_for(DoorOpened).clear()  # a copy
    assert registry.get_handlers_for(DoorOpened) == [Ring]


@pytest.mark.requirement("B2")
def test_handles_can_be_stacked(registry: EventRegistry) -> None:
    @registry.handles(DoorOpened)
    @registry.handles(DoorClosed)
    @registry.handles("door.painted")
    class Log:
        async def handle(self, event: Any) -> None: ...

    assert registry.get_handlers_for(DoorOpened) == [Log]
    assert registry.get_handlers_for(DoorClosed) == [Log]
    assert registry.get_handlers_for("door.painted") == [Log]


@pytest.mark.requirement("B3")
def test_handlers_come_in_order_of_registration(registry: EventRegistry) -> None:
    registry.handles(DoorOpened)(Ring)
    registry.handles(DoorOpened)(Greet)
    registry.handles(DoorClosed)(Greet)
    registry.handles(DoorClosed)(Ring)
    registry.handles(DoorOpened)(Ring)  # as when its module is imported anew
    assert registry.get_handlers_for(DoorOpened) == [Ring, Greet]
    assert registry.get_handlers_for(DoorClosed) == [Greet, Ring]


@pytest.mark.requirement("B3")
def test_a_handler_of_a_class_handles_its_subclasses_too(registry: EventRegistry) -> None:
    registry.handles(DoorOpened)(Greet)
    registry.handles(GateOpened)(Ring)
    registry.handles(GateOpened)(Greet)
    assert registry.get_handlers_for(GateOpened) == [Ring, Greet]
    assert registry.get_handlers_for(DoorOpened) == [Greet]


def test_a_subclass_of_a_class_that_is_handled_is_known(registry: EventRegistry) -> None:
    registry.handles(DomainEvent)(Ring)
    assert registry.event_class("GateOpened") is GateOpened
    assert registry.get_handlers_for(GateOpened) == [Ring]
    with pytest.raises(UnknownEventTypeError):
        registry.event_class("GatePainted")


def test_two_subclasses_of_one_name_are_refused(registry: EventRegistry) -> None:
    base: Any = type("Twins", (DomainEvent,), {})  # classes live on, in the caches of their names
    twins = [type("TwinOpened", (base,), {"__module__": module}) for module in ("here", "there")]
    registry.handles(base)(Ring)
    with pytest.raises(EventDefinitionError, match="'TwinOpened'"):
        registry.event_class("TwinOpened")
    assert len(twins) == 2


def test_a_class_that_is_imported_anew_keeps_its_handlers(registry: EventRegistry) -> None:
    """As when the module of the events is reloaded, and that of the handlers is not."""
    registry.handles(DoorOpened)(Ring)
    anew: type = type("DoorOpened", (DomainEvent,), {"__module__": __name__})
    registry.register(anew)
    assert registry.get_handlers_for(anew) == [Ring]


def test_a_handler_is_remembered_by_its_path_or_by_a_name(registry: EventRegistry) -> None:
    registry.handles(DoorOpened)(Ring)
    registry.handles(DoorOpened, name="greeter")(Greet)
    assert list(registry.handler_entries(DoorOpened)) == [
        HandlerEntry(Ring, f"{__name__}.Ring"),
        HandlerEntry(Greet, "greeter"),
    ]


def test_two_handlers_of_an_event_cannot_have_one_name(registry: EventRegistry) -> None:
    registry.handles(DoorOpened, name="door")(Ring)
    with pytest.raises(
        EventDefinitionError, match=r"door.*Ring.*Greet.*Give one another name=…\.$"
    ):
        registry.handles(DoorOpened, name="door")(Greet)


@pytest.mark.requirement("A18", "B2")
def test_the_default_registry_is_behind_the_plain_functions() -> None:
    @dataclass(frozen=True, kw_only=True)
    class WindowBroken(DomainEvent):
        pass

    @handles(WindowBroken)
    class Glazier:
        async def handle(self, event: WindowBroken) -> None: ...

    assert get_handlers_for(WindowBroken) == [Glazier]
    assert default_registry.event_class("WindowBroken") is WindowBroken
    event = WindowBroken()
    assert deserialize_event("WindowBroken", serialize_event(event)) == event


def test_two_classes_with_one_name_are_refused(registry: EventRegistry) -> None:
    class Other(DomainEvent, name="DoorOpened"):
        pass

    registry.register(DoorOpened)
    with pytest.raises(EventDefinitionError, match=r"'DoorOpened'.*test_registry.*Other.*name="):
        registry.register(Other)
    with pytest.raises(EventDefinitionError, match="two classes"):
        registry.handles(Other)
    assert registry.event_class("DoorOpened") is DoorOpened


def test_a_class_that_is_imported_anew_takes_the_old_one_s_place(registry: EventRegistry) -> None:
    def make() -> type[DomainEvent]:
        class Reloaded(DomainEvent):
            pass

        return Reloaded

    old, new = make(), make()
    for event_class in (old, old, new):
        registry.register(event_class)
    assert registry.event_class("Reloaded") is new


def test_a_field_that_cannot_be_kept_is_refused_at_handles(registry: EventRegistry) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Impossible:  # a DomainEvent is refused where it is defined
        door: complex
        event_id: UUID = field(default_factory=uuid7)
        occurred_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    with pytest.raises(EventDefinitionError, match=r"Impossible cannot be an event.*`door`"):
        registry.handles(Impossible)
    with pytest.raises(UnknownEventTypeError):
        registry.event_class("Impossible")


@pytest.mark.parametrize("no_event", [int, dict, object, Path])
def test_a_class_that_is_no_event_is_refused_at_handles(
    registry: EventRegistry, no_event: type
) -> None:
    with pytest.raises(EventDefinitionError, match=no_event.__name__):
        registry.handles(no_event)


def test_a_handler_of_a_pattern_handles_the_types_that_match(registry: EventRegistry) -> None:
    """A pattern is one of routes: `*` is one word, `#` any number of them."""
    registry.handles("door.*")(Ring)
    registry.handles("door.opened")(Greet)
    registry.handles("door.*")(Greet)
    registry.handles("#")(Log)
    assert registry.get_handlers_for("door.opened") == [Greet, Ring, Log]
    assert registry.get_handlers_for("door.closed") == [Ring, Greet, Log]
    assert registry.get_handlers_for("door.bell.rung") == [Log]
    assert registry.handler_classes() == [Ring, Greet, Log]
    assert registry.event_types() == ["door.opened"]


@pytest.mark.parametrize("pattern", ["door*", "door.op*", "Door#", "*.op*", ""])
def test_a_pattern_that_matches_no_event_type_is_refused(
    registry: EventRegistry, pattern: str
) -> None:
    with pytest.raises(EventDefinitionError, match=r"@handles got '.*'\. .*one whole word"):
        registry.handles(pattern)


def test_an_upcaster_is_of_one_event_type(registry: EventRegistry) -> None:
    with pytest.raises(EventDefinitionError, match=r"@upcasts got 'door\.\*'\. Give it the event"):
        registry.upcasts("door.*", version=1)
