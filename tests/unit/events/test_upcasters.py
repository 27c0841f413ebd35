"""Functions that cannot upcast: refused where they are registered, or blamed by name."""

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
)


@dataclass(frozen=True, kw_only=True)
class Moved(DomainEvent, version=3):
    street: str = "Ring"


async def awaits(payload: dict[str, Any]) -> dict[str, Any]:
    return payload


def yields(payload: dict[str, Any]) -> Any:
    yield payload


async def awaits_and_yields(payload: dict[str, Any]) -> Any:
    yield payload


class Awaits:
    async def __call__(self, payload: dict[str, Any]) -> dict[str, Any]:
        return payload


class Forgets:
    def __call__(self, payload: dict[str, Any]) -> None:
        payload["street"] = "Graben"


def forgets(payload: dict[str, Any]) -> Any:
    payload["street"] = "Graben"


def passes_on(payload: dict[str, Any]) -> Any:
    return awaits(payload)


@pytest.fixture
def registry() -> EventRegistry:
    registry = EventRegistry()
    registry.register(Moved)
    return registry


@pytest.mark.parametrize("version", [-1, 0, True, "1", 1.0, None, 2**31])
def test_an_upcaster_of_no_version_is_refused(registry: EventRegistry, version: Any) -> None:
    with pytest.raises(EventDefinitionError, match=r"@upcasts of Moved.*version.*1, 2, 3"):
        registry.upcasts(Moved, version=version)


@pytest.mark.parametrize("version", [3, 4])
def test_an_upcaster_of_a_version_that_is_not_old_is_refused(
    registry: EventRegistry, version: int
) -> None:
    with pytest.raises(
        EventDefinitionError,
        match=rf"Moved is of version 3.*version {version}.*`version={version + 1}`",
    ):
        registry.upcasts(Moved, version=version)


@pytest.mark.parametrize("event_type", [None, 5, ""])
def test_an_upcaster_of_no_event_type_is_refused(registry: EventRegistry, event_type: Any) -> None:
    with pytest.raises(EventDefinitionError, match=r"@upcasts.*event class.*name"):
        registry.upcasts(event_type, version=1)


@pytest.mark.parametrize("upcaster", [awaits, Awaits(), partial(awaits), yields, awaits_and_yields])
def test_an_async_function_or_a_generator_cannot_upcast(
    registry: EventRegistry, upcaster: Any
) -> None:
    with pytest.raises(EventDefinitionError, match=r"cannot upcast Moved.*plain function"):
        registry.upcasts(Moved, version=1)(upcaster)


def test_what_cannot_be_called_cannot_upcast(registry: EventRegistry) -> None:
    with pytest.raises(EventDefinitionError, match=r"cannot upcast Moved.*plain function"):
        registry.upcasts(Moved, version=1)({"street": "Ring"})  # type: ignore[arg-type]


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
    registry.upcasts(Moved, version=1)(upcaster)
    registry.upcasts(Moved, version=2)(dict)
    with pytest.raises(
        PayloadError, match=rf"Moved.*from version 1: .*{name} returned {returned}.*Return"
    ):
        deserialize_event("Moved", {}, registry=registry)


@pytest.mark.parametrize("version", ["2", None, 1.5, True, 0])
def test_a_payload_of_no_version_is_not_blamed_on_newer_code(
    registry: EventRegistry, version: Any
) -> None:
    with pytest.raises(PayloadError, match=r"Moved is of version .* knows 1 to 3\. Correct"):
        deserialize_event("Moved", {"event_version": version}, registry=registry)
