"""One name per class of aggregates, so that all of its events have one key, and are in order."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, select
from sqlalchemy.orm import Session, registry, sessionmaker

from postroom import (
    AggregateRoot,
    CaptureError,
    CaptureWarning,
    DomainEvent,
    EventBus,
    Outbox,
    OutboxRecord,
    UntypedEvent,
)

pytestmark = pytest.mark.requirement("D4")


metadata = MetaData()


class NamedRecord(OutboxRecord):
    pass


outbox = Outbox(metadata, record=NamedRecord)


class WithoutName(DomainEvent):
    pass


class WithName(DomainEvent, aggregate="order"):
    pass


class WithAnotherName(DomainEvent, aggregate="parcel"):
    pass


@dataclass(frozen=True, kw_only=True)
class WithNameAndId(DomainEvent, aggregate="order", key="number"):
    number: int = 7


UNTYPED = UntypedEvent(event_type="order.untyped", payload={})


def new_order(**attributes: str) -> Any:
    """Return an aggregate of a class of which nothing has been raised yet."""
    number = Column("number", Integer, primary_key=True)
    table = Table(f"orders_{len(metadata.tables)}", metadata, number)
    order_class: Any = type("Order", (AggregateRoot,), attributes)
    registry(metadata=metadata).map_imperatively(order_class, table)
    order = order_class()
    order.number = 7
    return order


@pytest.fixture
def session() -> Iterator[Session]:
    engine = create_engine("sqlite://")
    sessions = sessionmaker(engine)
    outbox.capture(sessions)
    with sessions() as session:
        yield session
    engine.dispose()


def keys(session: Session) -> list[tuple[str | None, str | None]]:
    metadata.create_all(session.get_bind())
    session.commit()
    records = session.scalars(select(NamedRecord).order_by(outbox.tables.records.c.position))
    return [(record.aggregate_type, record.aggregate_id) for record in records]


MIXED = [
    (WithoutName(), WithName()),
    (WithName(), WithoutName()),
    (WithNameAndId(), WithoutName()),
    (WithoutName(), WithNameAndId()),
    (WithName(), WithAnotherName()),
    (UNTYPED, WithNameAndId()),
]


@pytest.mark.parametrize(("first", "second"), MIXED)
def test_events_of_one_aggregate_with_two_names_are_refused(
    session: Session, first: DomainEvent, second: DomainEvent
) -> None:
    order = new_order()
    session.add(order)
    order.raise_event(first)
    with pytest.raises(CaptureError, match=r"Order raises .*two keys.*`aggregate_type = ") as error:
        order.raise_event(second)
    assert type(second).__name__ in str(error.value)
    assert order.domain_events == (first,)
    assert len(keys(session)) == 1


@pytest.mark.parametrize(
    "events",
    [[WithName(), WithNameAndId()], [WithoutName(), UNTYPED], [WithNameAndId(), WithName()]],
)
def test_events_of_one_aggregate_with_one_name_have_one_key(
    session: Session, events: list[DomainEvent]
) -> None:
    order = new_order()
    session.add(order)
    for event in events:
        order.raise_event(event)
    assert len(set(keys(session))) == 1


def test_a_class_of_aggregates_can_say_its_name(session: Session) -> None:
    order = new_order(aggregate_type="order")
    session.add(order)
    for event in (WithoutName(), WithName(), WithNameAndId(), UNTYPED):
        order.raise_event(event)
    assert keys(session) == [("order", "7")] * 4


def test_an_event_may_have_the_key_of_another_aggregate(session: Session) -> None:
    """The class says its own name, so that the other one is no mistake."""
    order = new_order(aggregate_type="purchase")
    session.add(order)
    order.raise_event(WithoutName())
    order.raise_event(WithNameAndId(number=8))
    with pytest.raises(CaptureError, match=r"Order raises WithName .*'order'.*'purchase'"):
        order.raise_event(WithName())
    assert keys(session) == [("purchase", "7"), ("order", "8")]


def test_an_event_of_an_aggregate_that_cannot_have_an_id_warns_if_nothing_raises_it(
    session: Session,
) -> None:
    class HalfNamed(DomainEvent, aggregate="order"):
        pass

    @dataclass(frozen=True, kw_only=True)
    class Optional(DomainEvent, aggregate="order", key="number"):
        number: int | None = None

    with pytest.warns(CaptureWarning, match=r"HalfNamed .*no key.*'order'.*`key`"):
        outbox.dispatcher(session).dispatch_sync([HalfNamed()])
    with warnings.catch_warnings(action="error"):
        outbox.dispatcher(session).dispatch_sync([Optional()])


def test_an_event_that_gets_its_key_elsewhere_warns_where_it_has_none(session: Session) -> None:
    class Lonely(DomainEvent):
        pass

    with warnings.catch_warnings(action="error"):
        outbox.dispatcher(session).dispatch_sync([Lonely()])
    order = new_order()
    order.raise_event(Lonely())
    order.raise_event(UNTYPED)
    bus = EventBus()
    bus.emit(Lonely())
    reason = r"Lonely .*no key.*Order.*`aggregate`.*`key`"
    with pytest.warns(CaptureWarning, match=reason) as dispatched:
        outbox.dispatcher(session).dispatch_sync([Lonely()])
    with pytest.warns(CaptureWarning, match=reason) as flushed:
        outbox.middleware().flush_sync(session, bus)
    with pytest.warns(CaptureWarning, match=reason) as saved:
        outbox.save_sync(session, [Lonely()])
    assert {each.filename for each in (*dispatched, *flushed, *saved)} == {__file__}
    outbox.dispatcher(session).dispatch_sync([UNTYPED])  # another of no class: nothing is known
    assert keys(session) == [(None, None)] * 5
