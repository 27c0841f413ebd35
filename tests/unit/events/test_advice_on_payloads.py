"""Every advice for a payload that cannot be read, and for the registry: taking it helps."""

from dataclasses import dataclass
from typing import Any

import pytest

from postroom import (
    DomainEvent,
    EventDefinitionError,
    EventRegistry,
    PayloadError,
    deserialize_event,
)
from postroom.integrations.pydantic import PydanticEvent


@dataclass(frozen=True, kw_only=True)
class Opened(DomainEvent, name="opened"):
    number: int


@dataclass(frozen=True, kw_only=True)
class WithDefault(DomainEvent, name="opened"):
    number: int = 7


@dataclass(frozen=True, kw_only=True)
class SecondOpened(DomainEvent, name="opened", version=2):
    number: int


class OpenedModel(PydanticEvent, name="opened"):
    number: int


def seven(payload: dict[str, Any]) -> dict[str, Any]:
    return payload | {"number": 7}


def eight(payload: dict[str, Any]) -> dict[str, Any]:
    return payload | {"number": 8}


class Handler:
    async def handle(self, event: Any) -> None: ...


class OtherHandler(Handler):
    pass


def read(event_class: type, payload: Any, *upcasters: Any, version: int | None = None) -> Any:
    registry = EventRegistry()
    registry.register(event_class)
    for number, upcaster in enumerate(upcasters, 1):
        registry.upcasts(event_class, version=number)(upcaster)
    return deserialize_event("opened", payload, version=version, registry=registry)


@pytest.mark.parametrize(
    ("payload", "advice"),
    [
        ({}, "Give the field a default, or write an upcaster."),
        (
            {"number": "many"},
            "Correct the payload, or write an upcaster if an older version wrote it.",
        ),
    ],
)
def test_a_payload_of_another_shape_is_read_by_an_upcaster(payload: Any, advice: str) -> None:
    with pytest.raises(PayloadError) as refused:
        read(Opened, payload)
    assert str(refused.value).endswith(advice)
    assert read(SecondOpened, payload, seven).number == 7
    assert read(Opened, {"number": 7}).number == 7


def test_a_field_with_a_default_may_be_missing() -> None:
    assert read(WithDefault, {}).number == 7


def test_a_payload_that_a_model_does_not_take_can_be_corrected() -> None:
    with pytest.raises(PayloadError, match=r"correct the payload\.$"):
        read(OpenedModel, {"number": "many"})
    assert read(OpenedModel, {"number": 7}).number == 7


@pytest.mark.parametrize("payload", ["{", "[]"])
def test_a_payload_that_is_no_json_object_can_be_corrected(payload: str) -> None:
    with pytest.raises(PayloadError, match=r"Correct the payload\.$"):
        read(Opened, payload)
    assert read(Opened, '{"number": 7}').number == 7


def test_a_payload_of_a_newer_version_is_read_by_newer_code() -> None:
    newer = {"number": 7, "event_version": 2}
    with pytest.raises(PayloadError, match=r"Deploy the code that wrote it\.$"):
        read(Opened, newer)
    assert read(SecondOpened, newer).number == 7


def test_a_version_that_is_none_can_be_corrected() -> None:
    with pytest.raises(PayloadError, match=r"Correct it\.$"):
        read(Opened, {"number": 7, "event_version": "1"})
    assert read(Opened, {"number": 7, "event_version": 1}).number == 7


def test_a_missing_upcaster_can_be_added() -> None:
    with pytest.raises(PayloadError, match=r"Add @upcasts\(SecondOpened, version=1\)\.$"):
        read(SecondOpened, {})
    assert read(SecondOpened, {}, seven).number == 7


def test_an_upcaster_that_returns_nothing_can_return_the_payload() -> None:
    with pytest.raises(PayloadError, match=r"Return the new payload, a dict\.$"):
        read(SecondOpened, {}, lambda payload: payload.clear())
    assert read(SecondOpened, {}, seven).number == 7


def test_a_class_can_be_given_the_version_that_an_upcaster_leads_to() -> None:
    with pytest.raises(EventDefinitionError, match=r"Give the class the keyword `version=2`\.$"):
        read(Opened, {}, seven)
    assert read(SecondOpened, {}, seven).number == 7


def test_one_of_two_upcasters_can_be_removed() -> None:
    registry = EventRegistry()
    registry.upcasts(SecondOpened, version=1)(seven)
    with pytest.raises(EventDefinitionError, match=r"Remove one of them\.$"):
        registry.upcasts(SecondOpened, version=1)(eight)
    assert read(SecondOpened, {}, eight).number == 8


def test_one_of_two_handlers_can_be_given_another_name() -> None:
    registry = EventRegistry()
    registry.handles(Opened, name="billing")(Handler)
    with pytest.raises(EventDefinitionError, match=r"Give one another name=…\.$"):
        registry.handles(Opened, name="billing")(OtherHandler)
    registry.handles(Opened, name="shipping")(OtherHandler)
    assert registry.get_handlers_for(Opened) == [Handler, OtherHandler]


def test_one_of_two_classes_can_be_given_a_name_of_its_own() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Renamed(DomainEvent, name="opened.again"):
        number: int

    registry = EventRegistry()
    registry.register(Opened)
    with pytest.raises(EventDefinitionError, match=r'class WithDefault\(…, name="…"\)\.$'):
        registry.register(WithDefault)
    registry.register(Renamed)
    assert registry.event_class("opened.again") is Renamed
