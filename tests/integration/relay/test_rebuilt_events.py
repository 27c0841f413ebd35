"""What handlers get from the relay: the event that was captured, under the id of its record."""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ConfigDict
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from postroom import (
    CaptureError,
    DomainEvent,
    Event,
    EventBus,
    EventRegistry,
    OutboxRelay,
    RetrySchedule,
    Status,
)
from postroom.events.codec import same
from postroom.integrations.pydantic import PydanticEvent
from postroom.publishers.handlers.publisher import HandlersPublisher
from tests.support.rows import rows, save
from tests.support.shop import outbox

OTHER: Any = {"other": [2]}
NEPAL = timezone(timedelta(hours=5, minutes=45))


class Forbidding(PydanticEvent):
    model_config = ConfigDict(extra="forbid")
    number: int


class SecondForbidding(PydanticEvent, version=2, case="camel"):
    model_config = ConfigDict(extra="forbid")
    the_number: int


class Allowing(PydanticEvent):
    model_config = ConfigDict(extra="allow")
    number: int


class SecondAllowing(PydanticEvent, version=2):
    model_config = ConfigDict(extra="allow")
    number: int


@dataclass(frozen=True, kw_only=True)
class LengthMeasured(DomainEvent):
    zero: float
    order: dict[str, int]
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Before(DomainEvent, name="customer.moved"):
    street: str = "Ring"


@dataclass(frozen=True, kw_only=True)
class AfterUpcast(DomainEvent, name="customer.moved", version=2):
    street: str = "Ring"


@dataclass(frozen=True, kw_only=True)
class InCamelCase(DomainEvent, name="customer.moved", case="camel"):
    street: str = "Ring"


class InCamelCaseModel(PydanticEvent, name="customer.moved", case="camel"):
    street: str = "Ring"


async def attempts(engine: AsyncEngine, event_class: type, number: int = 1) -> list[Any]:
    """Give the events that a handler gets when it fails at every attempt but the last."""
    registry, got = EventRegistry(), list[Any]()

    @registry.upcasts("customer.moved", version=1)
    def only_the_street(payload: dict[str, Any]) -> dict[str, Any]:
        return {"street": payload["street"]}

    @registry.handles(event_class)
    class Handler:
        async def handle(self, event: Any) -> None:
            got.append(event)
            if len(got) < number:
                raise RuntimeError("not yet")

    publisher = HandlersPublisher(registry=registry)
    relay = OutboxRelay(outbox, engine, publisher, retry=RetrySchedule.seconds(0, forever=True))
    for _ in range(number):
        await relay.run_once()
    return got


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    "event",
    [
        Forbidding(number=1),
        SecondForbidding(the_number=1),
        Allowing(number=1, **OTHER),
        SecondAllowing(number=1, **OTHER),
    ],
    ids=lambda event: type(event).__name__,
)
async def test_a_model_is_delivered_whatever_it_does_with_extra_fields(
    database: AsyncEngine, event: Event
) -> None:
    await save(database, event)
    [delivered] = await attempts(database, type(event))
    assert delivered == event
    assert same(delivered, event)
    [record] = await rows(database)
    assert record.status == Status.PUBLISHED


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_a_model_that_forbids_extra_fields_gets_none_of_the_request_s_context(
    database: AsyncEngine,
) -> None:
    bus, event = EventBus(), Forbidding(number=1)
    bus.emit(event)
    async with AsyncSession(database) as session, session.begin():
        await outbox.middleware().flush(session, bus, user_id="ann")
    assert await attempts(database, Forbidding) == [event]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_a_model_that_allows_extra_fields_would_get_the_request_s_context(
    database: AsyncEngine,
) -> None:
    bus = EventBus()
    bus.emit(Allowing(number=1))
    async with AsyncSession(database) as session:
        with pytest.raises(CaptureError, match=r'Allowing.*extra="allow".*extra="ignore"'):
            await outbox.middleware().flush(session, bus, user_id="ann")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("event_class", [AfterUpcast, InCamelCase, InCamelCaseModel])
async def test_every_attempt_gets_the_id_and_the_time_of_the_record(
    database: AsyncEngine, event_class: type, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    event = Before(occurred_at=datetime(2026, 1, 5, 12, 30, 0, 123_456, tzinfo=UTC))
    await save(database, event)
    first, second = await attempts(database, event_class, number=2)
    assert first.event_id == second.event_id == event.event_id
    assert first.occurred_at == second.occurred_at == event.occurred_at


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_a_time_keeps_its_offset(database: AsyncEngine) -> None:
    event = Before(occurred_at=datetime(2026, 1, 5, 12, 30, 0, 123_456, tzinfo=NEPAL))
    await save(database, event)
    [delivered] = await attempts(database, Before)
    assert same(delivered, event)


@pytest.mark.requirement("A7")
async def test_only_what_equality_does_not_see_may_change(database: AsyncEngine) -> None:
    """As docs/how-to/events.md says: -0.0, the order of a dict, `fold` of a naive time."""
    at = datetime(2026, 1, 5, 12, fold=1)  # noqa: DTZ001  naive on purpose
    event = LengthMeasured(zero=-0.0, order={"long": 1, "b": 2, "a": 3}, at=at)
    await save(database, event)
    [delivered] = await attempts(database, LengthMeasured)
    assert delivered == event
    assert same(delivered, event)
    assert delivered.at.fold == 0
    on_postgresql = database.dialect.name == "postgresql"
    assert list(delivered.order) == (["a", "b", "long"] if on_postgresql else ["long", "b", "a"])
    assert str(delivered.zero) == ("0.0" if on_postgresql else "-0.0")
