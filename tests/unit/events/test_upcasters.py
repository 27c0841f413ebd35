"""Old payloads: upcast step by step to the version of today, or refused with what to do."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from postroom import (
    DomainEvent,
    EventDefinitionError,
    EventRegistry,
    PayloadError,
    deserialize_event,
    serialize_event,
    upcasts,
)

FIRST = {
    "event_id": "01890a5d-ac96-774b-bcce-b302099a8057",
    "occurred_at": "2020-01-01T00:00:00Z",
    "color": {"name": "red"},
}
"""A payload of version 1."""


@dataclass(frozen=True, kw_only=True)
class Painted(DomainEvent, version=3):
    colour: str
    coats: int


def one_to_two(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "colour": payload.pop("color").pop("name")}


def two_to_three(payload: dict[str, Any]) -> dict[str, Any]:
    payload["coats"] = 1
    return payload


@pytest.fixture
def registry() -> EventRegistry:
    """Knows Painted at version 3, and no upcaster."""
    registry = EventRegistry()
    registry.register(Painted)
    return registry


@pytest.fixture
def painted(registry: EventRegistry) -> EventRegistry:
    """Knows how Painted came about, too."""
    registry.upcasts(Painted, version=1)(one_to_two)
    registry.upcasts("Painted", version=2)(two_to_three)
    return registry


def test_version_1_is_read_by_version_3_through_two_upcasters(painted: EventRegistry) -> None:
    stored = copy.deepcopy(FIRST)
    event = deserialize_event("Painted", stored, registry=painted)
    assert (event.colour, event.coats) == ("red", 1)
    assert str(event.event_id) == FIRST["event_id"]
    assert stored == FIRST  # though the upcaster took parts away


def test_version_2_goes_through_the_last_upcaster_only(painted: EventRegistry) -> None:
    second = {**FIRST, "colour": "blue", "event_version": 2}
    assert deserialize_event("Painted", second, registry=painted).colour == "blue"
    without = {**FIRST, "colour": "blue"}
    assert deserialize_event("Painted", without, version=2, registry=painted).colour == "blue"


def test_the_current_version_goes_through_no_upcaster(painted: EventRegistry) -> None:
    event = Painted(colour="red", coats=5)
    assert deserialize_event("Painted", serialize_event(event), registry=painted) == event


def test_an_upcast_event_is_of_the_current_version(registry: EventRegistry) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Versioned(DomainEvent):
        event_version: int = 2

    registry.register(Versioned)
    registry.upcasts(Versioned, version=1)(dict)
    event = deserialize_event("Versioned", {**FIRST, "event_version": 1}, registry=registry)
    assert event.event_version == 2


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        *((each, "Deploy the code that wrote it") for each in (4, 99)),
        *((each, "Correct it") for each in (0, -1, "2", None, 1.5, True, [1])),
    ],
)
def test_a_version_that_this_code_does_not_know_is_refused(
    painted: EventRegistry, version: Any, remedy: str
) -> None:
    with pytest.raises(PayloadError, match=rf"Painted is of version .* knows 1 to 3\. {remedy}\.$"):
        deserialize_event("Painted", {**FIRST, "event_version": version}, registry=painted)


def test_a_missing_upcaster_is_named(registry: EventRegistry) -> None:
    registry.upcasts(Painted, version=1)(dict)
    error = r"nothing upcasts version 2\. Add @upcasts\(Painted, version=2\)\.$"
    with pytest.raises(PayloadError, match=error):
        deserialize_event("Painted", FIRST, registry=registry)


def test_an_upcaster_that_fails_with_a_key_error_is_not_a_missing_one(
    painted: EventRegistry,
) -> None:
    with pytest.raises(PayloadError, match=r"Painted.*version 1.*one_to_two.*'color'") as caught:
        deserialize_event("Painted", {}, registry=painted)
    assert isinstance(caught.value.__cause__, KeyError)


# -- which functions can upcast


def test_two_upcasters_for_one_step_are_refused(painted: EventRegistry) -> None:
    error = r"Painted has two.*version 1.*one_to_two.*two_to_three\. Remove one of them\.$"
    with pytest.raises(EventDefinitionError, match=error):
        painted.upcasts(Painted, version=1)(two_to_three)
    assert deserialize_event("Painted", FIRST, registry=painted).colour == "red"


def test_an_upcaster_that_is_imported_anew_takes_the_old_one_s_place(
    registry: EventRegistry,
) -> None:
    def make(colour: str) -> Any:
        def upcaster(payload: dict[str, Any]) -> dict[str, Any]:
            return {**payload, "colour": colour, "coats": 1}

        return upcaster

    registry.upcasts(Painted, version=1)(make("old"))
    registry.upcasts(Painted, version=1)(make("new"))
    registry.upcasts(Painted, version=2)(dict)
    assert deserialize_event("Painted", FIRST, registry=registry).colour == "new"


def test_upcasts_gives_the_function_back() -> None:
    class Upcast(DomainEvent, version=2):
        pass

    assert upcasts(Upcast, version=1)(dict) is dict


@pytest.mark.parametrize("version", [-1, 0, True, "1", 1.0, None, 2**31])
def test_an_upcaster_of_no_version_is_refused(registry: EventRegistry, version: Any) -> None:
    with pytest.raises(EventDefinitionError, match=r"@upcasts of Painted.*version.*1, 2, 3"):
        registry.upcasts(Painted, version=version)


@pytest.mark.parametrize("version", [3, 4])
def test_an_upcaster_of_a_version_that_is_not_old_is_refused(
    registry: EventRegistry, version: int
) -> None:
    error = rf"Painted is of version 3.*version {version}.*`version={version + 1}`\.$"
    with pytest.raises(EventDefinitionError, match=error):
        registry.upcasts(Painted, version=version)


@pytest.mark.parametrize("event_type", [None, 5, ""])
def test_an_upcaster_of_no_event_type_is_refused(registry: EventRegistry, event_type: Any) -> None:
    with pytest.raises(EventDefinitionError, match=r"@upcasts.*event class.*name"):
        registry.upcasts(event_type, version=1)


async def awaits(payload: dict[str, Any]) -> dict[str, Any]:
    return payload


def yields(payload: dict[str, Any]) -> Any:
    yield payload


async def awaits_and_yields(payload: dict[str, Any]) -> Any:
    yield payload


class Awaits:
    async def __call__(self, payload: dict[str, Any]) -> dict[str, Any]:
        return payload


NOT_PLAIN = [awaits, Awaits(), partial(awaits), yields, awaits_and_yields, {"colour": "red"}]


@pytest.mark.parametrize("upcaster", NOT_PLAIN)
def test_what_is_no_plain_function_cannot_upcast(registry: EventRegistry, upcaster: Any) -> None:
    with pytest.raises(EventDefinitionError, match=r"cannot upcast Painted.*plain function"):
        registry.upcasts(Painted, version=1)(upcaster)


class Forgets:
    def __call__(self, payload: dict[str, Any]) -> None:
        payload.clear()


def forgets(payload: dict[str, Any]) -> Any:
    payload.clear()


def passes_on(payload: dict[str, Any]) -> Any:
    return awaits(payload)


@pytest.mark.parametrize(
    ("upcaster", "name", "returned"),
    [
        (forgets, "forgets", "None"),
        (Forgets(), "Forgets", "None"),
        (partial(forgets), "partial", "None"),
        (lambda payload: [payload], "<lambda>", "a list"),
        (passes_on, "passes_on", "a coroutine"),
    ],
)
def test_an_upcaster_that_returns_no_payload_is_blamed_itself(
    registry: EventRegistry, upcaster: Callable[..., Any], name: str, returned: str
) -> None:
    registry.upcasts(Painted, version=1)(upcaster)
    registry.upcasts(Painted, version=2)(dict)
    error = rf"Painted.*from version 1: .*{name} returned {returned}\. Return the new payload"
    with pytest.raises(PayloadError, match=error):
        deserialize_event("Painted", {}, registry=registry)
