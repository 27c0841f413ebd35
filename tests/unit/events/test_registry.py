"""The registry: handlers in order, classes by name, modules found, payloads upcast."""

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from postroom import (
    DomainEvent,
    EventDefinitionError,
    EventDispatcher,
    EventHandler,
    EventRegistry,
    PayloadError,
    UnknownEventTypeError,
    auto_discover_handlers,
    deserialize_event,
    get_handlers_for,
    handles,
    serialize_event,
    upcasts,
)
from postroom.events.event import Event
from postroom.events.registry import HandlerEntry, default_registry
from tests.unit import handlers_package
from tests.unit.handlers_package.events import ParcelLost, ParcelSent


@dataclass(frozen=True, kw_only=True)
class DoorOpened(DomainEvent):
    door: str = "front"


@dataclass(frozen=True, kw_only=True)
class GateOpened(DoorOpened):
    pass


@dataclass(frozen=True, kw_only=True)
class DoorClosed(DomainEvent):
    pass


@dataclass(frozen=True, kw_only=True)
class Painted(DomainEvent, version=3):
    colour: str
    coats: int


class Ring:
    async def handle(self, event: DoorOpened) -> None: ...


class Greet:
    async def handle(self, event: DoorOpened) -> None: ...


@pytest.fixture
def registry() -> EventRegistry:
    return EventRegistry()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty package on sys.path, under a name that nothing has imported yet."""
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / f"handlers_{uuid4().hex}"
    package.mkdir()
    (package / "__init__.py").touch()
    yield package
    for name in [name for name in sys.modules if name.startswith(package.name)]:
        del sys.modules[name]


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


@pytest.mark.requirement("B2")
def test_handles_registers_the_class_and_gives_it_back(registry: EventRegistry) -> None:
    assert registry.handles(DoorOpened)(Ring) is Ring
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
    with pytest.raises(EventDefinitionError, match="two classes are called 'TwinOpened'"):
        registry.event_class("TwinOpened")
    assert len(twins) == 2


def test_a_class_that_is_imported_anew_keeps_its_handlers(registry: EventRegistry) -> None:
    """As when the module of the events is reloaded, and that of the handlers is not."""
    registry.handles(DoorOpened)(Ring)
    anew: type = type("DoorOpened", (DomainEvent,), {"__module__": __name__})
    registry.register(anew)
    assert registry.get_handlers_for(anew) == [Ring]


@pytest.mark.requirement("B3")
def test_an_event_that_nobody_handles_has_no_handlers(registry: EventRegistry) -> None:
    assert registry.get_handlers_for(DoorOpened) == []
    assert registry.get_handlers_for("nobody.cares") == []


def test_the_list_of_handlers_is_a_copy(registry: EventRegistry) -> None:
    registry.handles(DoorOpened)(Ring)
    registry.get_handlers_for(DoorOpened).clear()
    assert registry.get_handlers_for(DoorOpened) == [Ring]


def test_a_handler_that_is_registered_twice_runs_once(registry: EventRegistry) -> None:
    """As when its module is imported anew."""
    registry.handles(DoorOpened)(Ring)
    registry.handles(DoorOpened)(Greet)
    registry.handles(DoorOpened)(Ring)
    assert registry.get_handlers_for(DoorOpened) == [Ring, Greet]


def test_a_handler_is_remembered_by_its_path_or_by_a_name(registry: EventRegistry) -> None:
    registry.handles(DoorOpened)(Ring)
    registry.handles(DoorOpened, name="greeter")(Greet)
    assert list(registry.handler_entries(DoorOpened)) == [
        HandlerEntry(Ring, f"{__name__}.Ring"),
        HandlerEntry(Greet, "greeter"),
    ]


def test_two_handlers_of_an_event_cannot_have_one_name(registry: EventRegistry) -> None:
    registry.handles(DoorOpened, name="door")(Ring)
    with pytest.raises(EventDefinitionError, match=r"door.*Ring.*Greet"):
        registry.handles(DoorOpened, name="door")(Greet)


@pytest.mark.requirement("A18")
def test_handles_makes_the_class_known_by_its_name(registry: EventRegistry) -> None:
    registry.handles(DoorOpened)(Ring)
    assert registry.event_class("DoorOpened") is DoorOpened
    event = DoorOpened()
    assert deserialize_event("DoorOpened", serialize_event(event), registry=registry) == event


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


@pytest.mark.requirement("A8")
def test_an_unknown_event_type_is_a_value_error_that_says_what_is_known(
    registry: EventRegistry,
) -> None:
    registry.register(DoorOpened)
    registry.register(DoorClosed)
    with pytest.raises(ValueError, match=r"'Nobody'.*DoorClosed, DoorOpened") as caught:
        registry.event_class("Nobody")
    assert isinstance(caught.value, UnknownEventTypeError)


def test_two_classes_with_one_name_are_refused(registry: EventRegistry) -> None:
    class Other(DomainEvent, name="DoorOpened"):
        pass

    registry.register(DoorOpened)
    with pytest.raises(EventDefinitionError, match=r"'DoorOpened'.*test_registry.*Other.*name="):
        registry.register(Other)
    with pytest.raises(EventDefinitionError, match="two classes"):
        registry.handles(Other)
    assert registry.event_class("DoorOpened") is DoorOpened


def test_registering_a_class_again_changes_nothing(registry: EventRegistry) -> None:
    registry.register(DoorOpened)
    registry.register(DoorOpened)
    assert registry.event_class("DoorOpened") is DoorOpened


def test_a_class_that_is_imported_anew_takes_the_old_one_s_place(registry: EventRegistry) -> None:
    def make() -> type[DomainEvent]:
        class Reloaded(DomainEvent):
            pass

        return Reloaded

    old, new = make(), make()
    registry.register(old)
    registry.register(new)
    assert registry.event_class("Reloaded") is new


def test_a_field_that_cannot_be_kept_is_refused_at_handles(registry: EventRegistry) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Impossible(DomainEvent):
        door: complex

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


@pytest.mark.requirement("B4")
def test_every_module_below_a_package_is_found() -> None:
    names = auto_discover_handlers("tests.unit.handlers_package")
    assert sorted(names) == [
        "tests.unit.handlers_package.audit",
        "tests.unit.handlers_package.audit.ledger",
        "tests.unit.handlers_package.customers",
        "tests.unit.handlers_package.events",
    ]
    handlers = {handler.__name__ for handler in get_handlers_for(ParcelSent)}
    assert handlers == {"TellCustomer", "WriteLedger"}
    assert [handler.__name__ for handler in get_handlers_for(ParcelLost)] == ["WriteLedger"]


@pytest.mark.requirement("B4")
def test_a_package_can_be_given_as_a_module_and_discovered_twice() -> None:
    first = auto_discover_handlers(handlers_package)
    assert auto_discover_handlers(handlers_package) == first
    assert len(get_handlers_for(ParcelSent)) == 2


@pytest.mark.requirement("B4")
def test_a_new_handler_needs_a_file_and_nothing_else(package: Path) -> None:
    event_type = f"event.{package.name}"
    assert auto_discover_handlers(package.name) == []
    (package / "newcomer.py").write_text(
        "from postroom import handles\n"
        f"@handles({event_type!r})\n"
        "class Newcomer:\n"
        "    async def handle(self, event): ...\n"
    )
    importlib.invalidate_caches()
    assert auto_discover_handlers(package.name) == [f"{package.name}.newcomer"]
    [handler] = get_handlers_for(event_type)
    assert (handler.__module__, handler.__name__) == (f"{package.name}.newcomer", "Newcomer")


@pytest.mark.requirement("B4")
@pytest.mark.parametrize("where", ["", "deeper/"])
def test_a_module_that_cannot_be_imported_is_not_passed_over(package: Path, where: str) -> None:
    (package / "deeper").mkdir()
    (package / "deeper" / "__init__.py").write_text("import no_such_module\n" if where else "")
    (package / "broken.py").write_text("" if where else "import no_such_module\n")
    with pytest.raises(ImportError, match="no_such_module"):
        auto_discover_handlers(package.name)


@pytest.mark.requirement("B4")
def test_a_folder_without_an_init_file_is_a_package_too(package: Path) -> None:
    (package / "billing").mkdir()
    (package / "billing" / "invoices.py").touch()
    importlib.invalidate_caches()
    assert f"{package.name}.billing.invoices" in auto_discover_handlers(package.name)


def test_a_module_is_discovered_as_a_package_of_one() -> None:
    assert auto_discover_handlers("json.decoder") == ["json.decoder"]


@pytest.fixture
def painted(registry: EventRegistry) -> EventRegistry:
    """Knows Painted at version 3, and how it came about."""
    registry.register(Painted)

    @registry.upcasts(Painted, version=1)
    def one_to_two(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "colour": payload.pop("color")}

    @registry.upcasts("Painted", version=2)
    def two_to_three(payload: dict[str, Any]) -> dict[str, Any]:
        payload["coats"] = 1
        return payload

    return registry


FIRST = {
    "event_id": "01890a5d-ac96-774b-bcce-b302099a8057",
    "occurred_at": "2020-01-01T00:00:00Z",
    "color": "red",
}


def test_version_1_is_read_by_version_3_through_two_upcasters(painted: EventRegistry) -> None:
    event = deserialize_event("Painted", FIRST, registry=painted)
    assert (event.colour, event.coats) == ("red", 1)
    assert str(event.event_id) == FIRST["event_id"]


def test_version_2_goes_through_the_last_upcaster_only(painted: EventRegistry) -> None:
    second = {**FIRST, "colour": "blue", "event_version": 2}
    assert deserialize_event("Painted", second, registry=painted).colour == "blue"
    without = {**FIRST, "colour": "blue"}
    assert deserialize_event("Painted", without, version=2, registry=painted).colour == "blue"


def test_the_current_version_goes_through_no_upcaster(painted: EventRegistry) -> None:
    event = Painted(colour="red", coats=5)
    text = serialize_event(event)
    assert '"event_version":3' in text
    assert deserialize_event("Painted", text, registry=painted) == event


def test_an_upcaster_does_not_change_the_payload_it_is_given(painted: EventRegistry) -> None:
    stored = dict(FIRST)
    deserialize_event("Painted", stored, registry=painted)
    assert stored == FIRST


def test_an_upcaster_does_not_change_what_is_nested(registry: EventRegistry) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Moved(DomainEvent, version=2):
        address: dict[str, str]

    registry.register(Moved)

    @registry.upcasts(Moved, version=1)
    def rename(payload: dict[str, Any]) -> dict[str, Any]:
        payload["address"]["zip"] = payload["address"].pop("zipcode")
        return payload

    stored: dict[str, Any] = {**FIRST, "address": {"zipcode": "1"}}
    assert deserialize_event("Moved", stored, registry=registry).address == {"zip": "1"}
    assert stored["address"] == {"zipcode": "1"}


def test_an_upcaster_that_fails_with_a_key_error_is_not_a_missing_one(
    painted: EventRegistry,
) -> None:
    without_colour = {name: value for name, value in FIRST.items() if name != "color"}
    with pytest.raises(PayloadError, match=r"Painted.*version 1.*one_to_two.*'color'") as caught:
        deserialize_event("Painted", without_colour, registry=painted)
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_upcast_event_is_of_the_current_version(registry: EventRegistry) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Versioned(DomainEvent):
        event_version: int = 2

    registry.register(Versioned)
    registry.upcasts(Versioned, version=1)(dict)
    event = deserialize_event("Versioned", {**FIRST, "event_version": 1}, registry=registry)
    assert event.event_version == 2


@pytest.mark.parametrize("version", [4, 99, 0, -1, "2", None, 1.5, [1]])
def test_a_version_that_this_code_does_not_know_is_refused(
    painted: EventRegistry, version: Any
) -> None:
    with pytest.raises(PayloadError, match=r"Painted is of version .* knows 1 to 3"):
        deserialize_event("Painted", {**FIRST, "event_version": version}, registry=painted)


def test_a_version_from_the_future_says_what_to_do(painted: EventRegistry) -> None:
    with pytest.raises(PayloadError, match=r"version 4.*1 to\s+3.*Deploy the code that wrote it"):
        deserialize_event("Painted", FIRST, version=4, registry=painted)


def test_a_missing_upcaster_is_named(registry: EventRegistry) -> None:
    registry.register(Painted)
    registry.upcasts(Painted, version=1)(dict)
    with pytest.raises(
        PayloadError, match=r"nothing upcasts version 2.*@upcasts\(Painted, version=2\)"
    ):
        deserialize_event("Painted", FIRST, registry=registry)


def test_two_upcasters_for_one_step_are_refused(painted: EventRegistry) -> None:
    def another(payload: dict[str, Any]) -> dict[str, Any]:
        return payload

    with pytest.raises(
        EventDefinitionError, match=r"Painted has two.*version 1.*one_to_two.*another"
    ):
        painted.upcasts(Painted, version=1)(another)
    assert deserialize_event("Painted", FIRST, registry=painted).colour == "red"


def test_an_upcaster_that_is_imported_anew_takes_the_old_one_s_place(
    registry: EventRegistry,
) -> None:
    def make(colour: str) -> Any:
        def upcaster(payload: dict[str, Any]) -> dict[str, Any]:
            return {**payload, "colour": colour, "coats": 1}

        return upcaster

    registry.register(Painted)
    registry.upcasts(Painted, version=1)(make("old"))
    registry.upcasts(Painted, version=1)(make("new"))
    registry.upcasts(Painted, version=2)(dict)
    assert deserialize_event("Painted", FIRST, registry=registry).colour == "new"


def test_upcasts_gives_the_function_back() -> None:
    class Upcast(DomainEvent, version=2):
        pass

    assert upcasts(Upcast, version=1)(dict) is dict
