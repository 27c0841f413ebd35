"""Pydantic models as events: captured and rebuilt, or refused."""

from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, ValidationError, field_serializer
from sqlalchemy import select
from sqlalchemy.orm import Session

from postroom import (
    CaptureError,
    Event,
    EventDefinitionError,
    EventRegistry,
    OutboxRecord,
    PayloadError,
    deserialize_event,
    handles,
    serialize_event,
)
from postroom.events.codec import same
from postroom.events.description import describe
from postroom.integrations.pydantic import PydanticEvent
from tests.support.shop import outbox
from tests.support.story import story


class Plan(Enum):
    FREE = "free"
    PAID = "paid"


class Price(BaseModel):
    net_amount: Decimal
    currency: str = "EUR"


class SubscriptionStarted(
    PydanticEvent,
    name="subscription.started",
    version=2,
    aggregate="subscription",
    key="subscription_id",
    case="camel",
    rename={"occurred_at": "occurredOn"},
):
    subscription_id: UUID
    plan: Plan
    price: Price
    starts_on: date
    tags: frozenset[str] = frozenset()


class SubscriptionEnded(PydanticEvent):
    subscription_id: int


class Ambiguous(PydanticEvent):
    reference: UUID | str


class Lossy(PydanticEvent):
    amount: int

    @field_serializer("amount")
    def _rounded(self, amount: int) -> int:
        return amount // 10 * 10


def started() -> SubscriptionStarted:
    return SubscriptionStarted(
        subscription_id=uuid4(),
        plan=Plan.PAID,
        price=Price(net_amount=Decimal("9.90")),
        starts_on=date(2026, 1, 5),
        tags=frozenset({"new"}),
        occurred_at=datetime(2026, 1, 5, tzinfo=UTC),
    )


def registry_of(*classes: type) -> EventRegistry:
    registry = EventRegistry()
    for one in classes:
        registry.register(one)
    return registry


@pytest.mark.requirement("A3", "A7")
@story
def test_a_model_is_captured_and_rebuilt_equal(session: Session) -> None:
    event = started()
    outbox.dispatcher(session).dispatch_sync([event])
    session.commit()
    [record] = session.scalars(select(OutboxRecord))
    assert record.id == event.event_id
    assert (record.event_type, record.event_version) == ("subscription.started", 2)
    assert record.aggregate_type == "subscription"
    assert record.aggregate_id == str(event.subscription_id)
    assert record.payload == {
        "eventId": str(event.event_id),
        "occurredOn": "2026-01-05T00:00:00Z",
        "subscriptionId": str(event.subscription_id),
        "plan": "paid",
        "price": {"net_amount": "9.90", "currency": "EUR"},
        "startsOn": "2026-01-05",
        "tags": ["new"],
        "eventVersion": 2,
    }
    rebuilt = deserialize_event(record.event_type, record.payload)
    assert rebuilt == event
    assert same(rebuilt, event)


def test_a_model_is_an_event_with_an_id_and_a_time() -> None:
    before = datetime.now(UTC)
    event: Event = SubscriptionEnded(subscription_id=1)
    assert isinstance(event, Event)
    assert event.event_id.version == 7
    assert before <= event.occurred_at <= datetime.now(UTC)
    assert event.event_id != SubscriptionEnded(subscription_id=1).event_id


def test_a_model_cannot_be_changed() -> None:
    event = SubscriptionEnded(subscription_id=1)
    with pytest.raises(ValidationError, match="frozen"):
        event.subscription_id = 2


def test_a_model_without_keywords_is_stored_under_its_name() -> None:
    described = describe(SubscriptionEnded(subscription_id=1))
    assert (described.event_type, described.event_version) == ("SubscriptionEnded", 1)
    assert (described.aggregate_type, described.aggregate_id) == (None, None)
    assert list(described.payload) == ["event_id", "occurred_at", "subscription_id"]


def test_a_submodel_inherits_every_keyword_but_the_name() -> None:
    class TrialStarted(SubscriptionStarted, naming="dotted"):
        days: int = 14

    event = TrialStarted(
        **{name: getattr(started(), name) for name in type(started()).model_fields}
    )
    described = describe(event)
    assert described.event_type == "trial.started"
    assert described.event_version == 2
    assert described.aggregate_type == "subscription"
    assert described.payload["occurredOn"] == "2026-01-05T00:00:00Z"


@pytest.mark.parametrize("keywords", [{"nmae": "x"}, {"version": 0}, {"case": "kebab"}])
def test_a_wrong_keyword_is_refused(keywords: dict[str, Any]) -> None:
    with pytest.raises(EventDefinitionError, match="Mistaken"):
        type("Mistaken", (PydanticEvent,), {}, **keywords)


def test_a_version_can_be_a_field() -> None:
    class Versioned(PydanticEvent):
        event_version: int = 3

    assert describe(Versioned()).event_version == 3
    event = Versioned()
    registry = registry_of(Versioned)
    assert deserialize_event("Versioned", serialize_event(event), registry=registry) == event


@pytest.mark.parametrize("value", ["550e8400-e29b-41d4-a716-446655440000", "550E8400" * 4])
def test_a_model_that_does_not_come_back_the_same_is_refused(value: str) -> None:
    session = Session()
    bad = Ambiguous(reference="x").model_copy(update={"reference": value})
    with pytest.raises(CaptureError, match=r"Ambiguous: .*`reference`"):
        outbox.dispatcher(session).dispatch_sync([SubscriptionEnded(subscription_id=1), bad])
    assert not session.new


def test_an_ambiguous_field_is_taken_when_its_value_is_clear() -> None:
    registry = registry_of(Ambiguous)
    for reference in ("just text", uuid4()):
        event = Ambiguous(reference=reference)
        back = deserialize_event("Ambiguous", serialize_event(event), registry=registry)
        assert same(back, event)


def test_a_serializer_that_loses_something_is_refused() -> None:
    assert serialize_event(Lossy(amount=20))
    with pytest.raises(CaptureError, match=r"Lossy.*`amount`.*25 becomes 20"):
        serialize_event(Lossy(amount=25))


def test_an_old_payload_is_read() -> None:
    registry = registry_of(SubscriptionStarted)

    @registry.upcasts(SubscriptionStarted, version=1)
    def add_price(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "price": {"net_amount": "0"}}

    old = {
        "eventId": str(uuid4()),
        "occurredOn": "2020-01-01T00:00:00Z",
        "subscriptionId": str(uuid4()),
        "plan": "free",
        "startsOn": "2020-01-01",
        "removed": True,
    }
    event = deserialize_event("subscription.started", old, registry=registry)
    assert (event.plan, event.price, event.tags) == (
        Plan.FREE,
        Price(net_amount=Decimal(0)),
        frozenset(),
    )


def test_a_payload_that_does_not_fit_is_told() -> None:
    registry = registry_of(SubscriptionEnded)
    with pytest.raises(PayloadError, match=r"(?s)SubscriptionEnded.*subscription_id"):
        deserialize_event(
            "SubscriptionEnded",
            {"subscription_id": "many"},
            event_id=uuid4(),
            occurred_at=datetime.now(UTC),
            registry=registry,
        )


@pytest.mark.requirement("A18", "B2")
def test_a_model_can_be_handled() -> None:
    @handles(SubscriptionEnded)
    class Say:
        async def handle(self, event: SubscriptionEnded) -> None: ...

    event = SubscriptionEnded(subscription_id=1)
    assert deserialize_event("SubscriptionEnded", serialize_event(event)) == event


def test_any_model_with_an_id_and_a_time_is_an_event() -> None:
    class Homemade(BaseModel):
        event_id: UUID
        occurred_at: datetime

    event = Homemade(event_id=uuid4(), occurred_at=datetime.now(UTC))
    assert describe(event).event_type == "Homemade"
    registry = registry_of(Homemade)
    assert deserialize_event("Homemade", serialize_event(event), registry=registry) == event
