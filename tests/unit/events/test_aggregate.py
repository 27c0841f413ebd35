"""Aggregates: they raise, list, collect and clear events, however they are mapped."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, inspect
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    MappedAsDataclass,
    Session,
    configure_mappers,
    mapped_column,
    registry,
)

from postroom import (
    AggregateRoot,
    CaptureError,
    Delayed,
    DomainEvent,
    EventDefinitionError,
    UntypedEvent,
)
from postroom.identity import uuid7

pytestmark = pytest.mark.requirement("D2")


@dataclass(frozen=True, kw_only=True)
class FamilyMemberInvitedEvent(DomainEvent):
    email: str


class Base(DeclarativeBase):
    pass


class DataBase(MappedAsDataclass, DeclarativeBase):
    pass


class Declarative(AggregateRoot, Base):
    __tablename__ = "declarative"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


class AsDataclass(AggregateRoot, DataBase):
    __tablename__ = "as_dataclass"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


class Imperative(AggregateRoot):
    def __init__(self, id: int, name: str) -> None:  # noqa: A002  the column's name
        self.id = id
        self.name = name


@dataclass
class Unmapped(AggregateRoot):
    id: int
    name: str
    tags: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Slotted(AggregateRoot):
    id: int
    name: str


@dataclass(frozen=True)
class Frozen(AggregateRoot):
    id: int
    name: str


imperative = Table(
    "imperative", MetaData(), Column("id", Integer, primary_key=True), Column("name", String)
)
registry(metadata=imperative.metadata).map_imperatively(Imperative, imperative)
configure_mappers()

ALL = [Declarative, AsDataclass, Imperative, Unmapped, Slotted, Frozen]
MAPPED = [Declarative, AsDataclass, Imperative]
FIRST = FamilyMemberInvitedEvent(email="a@b.com")
SECOND = FamilyMemberInvitedEvent(email="c@d.com")


def made(kind: Any) -> Any:
    return kind(id=1, name="Ann")


@pytest.mark.parametrize("kind", ALL)
def test_events_are_listed_in_order_until_they_are_collected_or_cleared(
    kind: type[AggregateRoot],
) -> None:
    aggregate = made(kind)
    aggregate.raise_event(FIRST)
    aggregate.raise_event(SECOND)
    assert aggregate.domain_events == (FIRST, SECOND)
    collected = aggregate.collect_events()
    assert collected == [FIRST, SECOND]
    assert aggregate.domain_events == ()
    aggregate.raise_event(FIRST)
    aggregate.clear_events()
    assert aggregate.collect_events() == []
    collected.clear()
    aggregate.raise_event(SECOND)
    assert (aggregate.domain_events, collected) == ((SECOND,), [])


@pytest.mark.parametrize("kind", ALL)
def test_aggregates_do_not_share_events(kind: type[AggregateRoot]) -> None:
    one, other = made(kind), made(kind)
    one.raise_event(FIRST)
    assert other.domain_events == ()
    assert other.collect_events() == []


@pytest.mark.parametrize("kind", MAPPED)
def test_an_aggregate_loaded_from_the_database_raises_events(kind: Any) -> None:
    """The ORM makes instances without calling __init__."""
    engine = create_engine("sqlite://")
    inspect(kind).local_table.create(engine)
    with Session(engine) as session:
        session.add(made(kind))
        session.commit()
        session.expunge_all()
        loaded = session.get_one(kind, 1)
        assert loaded.domain_events == ()
        loaded.raise_event(FIRST)
        session.expire(loaded)
        session.refresh(loaded)
        assert loaded.domain_events == (FIRST,)
        session.flush()
        assert loaded.collect_events() == [FIRST]  # no interceptor: nobody took them
    engine.dispose()


@pytest.mark.parametrize("kind", [Unmapped, AsDataclass])
def test_events_are_no_part_of_what_a_dataclass_compares_and_shows(
    kind: type[AggregateRoot],
) -> None:
    one, other = made(kind), made(kind)
    one.raise_event(FIRST)
    assert one == other
    assert "Invited" not in repr(one)


def test_an_event_is_raised_once() -> None:
    aggregate = made(Unmapped)
    aggregate.raise_event(FIRST)
    error = rf"Unmapped has raised .*{FIRST.event_id}.*Make a new one"
    with pytest.raises(CaptureError, match=error):
        aggregate.raise_event(FIRST)
    assert aggregate.collect_events() == [FIRST]
    aggregate.raise_event(FIRST)
    assert aggregate.domain_events == (FIRST,)


@dataclass(frozen=True, kw_only=True)
class Tagged(DomainEvent):
    tags: list[str]
    anything: Any = None


@dataclass(kw_only=True)
class Changeable:
    """An event of a class that is not frozen."""

    tags: list[str]
    event_id: UUID = field(default_factory=uuid7)
    occurred_at: datetime = field(default_factory=lambda: datetime.now(UTC))


def untyped(tags: list[str]) -> UntypedEvent:
    return UntypedEvent(event_type="tagged", payload={"nested": {"tags": tags}})


def delayed(tags: list[str]) -> Delayed:
    return Delayed(untyped(tags), until=datetime(2030, 1, 5, tzinfo=UTC))


KINDS: list[Callable[[list[str]], Any]] = [
    lambda tags: Tagged(tags=tags, anything={"tags": tags}),
    lambda tags: Changeable(tags=tags),
    untyped,
    delayed,
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_stays_as_it_was_raised(kind: Callable[[list[str]], Any]) -> None:
    """It may hold a list of the aggregate itself, which changes afterwards."""
    aggregate: Any = made(Unmapped)
    raised = [kind(aggregate.tags)]
    expected = [copy.deepcopy(raised[0])]
    aggregate.raise_event(raised[0])
    assert aggregate.domain_events == (raised[0],)
    aggregate.tags.append("new")
    raised.append(kind(aggregate.tags))
    expected.append(copy.deepcopy(raised[1]))
    aggregate.raise_event(raised[1])
    aggregate.tags.clear()
    twin = copy.deepcopy(aggregate)
    assert list(aggregate.domain_events) == expected
    assert aggregate.collect_events() == expected
    assert twin.collect_events() == expected


def test_an_event_without_a_class_stays_as_it_was_though_its_payload_has_another_value() -> None:
    aggregate, payload = made(Unmapped), {"price": 1}
    aggregate.raise_event(UntypedEvent(event_type="priced", payload=payload))
    payload["price"] = 2
    assert aggregate.domain_events[0].payload == {"price": 1}


def test_an_event_that_has_not_changed_is_itself() -> None:
    aggregate, event = made(Unmapped), Tagged(tags=["a"])
    aggregate.raise_event(event)
    assert aggregate.domain_events[0] is event
    assert aggregate.collect_events()[0] is event


def test_what_changes_into_something_unfit_stays_as_it_was_raised() -> None:
    aggregate, tags = made(Unmapped), list[Any]("a")
    aggregate.raise_event(Tagged(tags=tags))
    tags[0] = 5
    assert aggregate.domain_events[0].tags == ["a"]


UNFIT: list[Any] = [Tagged(tags=["a\0b"]), untyped([math.nan])]  # type: ignore[list-item]


@pytest.mark.parametrize("unfit", UNFIT)
def test_an_event_that_cannot_be_saved_is_refused_when_it_is_raised(unfit: Any) -> None:
    aggregate = made(Unmapped)
    with pytest.raises(CaptureError, match=r"cannot capture \w+: field `[\w.]*tags\[0\]`"):
        aggregate.raise_event(unfit)
    assert aggregate.domain_events == ()


NO_EVENTS: list[Any] = [5, None, "DoorOpened", {"event_type": "x"}, FamilyMemberInvitedEvent]


@pytest.mark.parametrize("wrong", NO_EVENTS)
def test_what_is_no_event_is_refused_when_it_is_raised(wrong: Any) -> None:
    aggregate = made(Unmapped)
    with pytest.raises(EventDefinitionError, match=r"is not an event.*DomainEvent"):
        aggregate.raise_event(wrong)
    assert aggregate.domain_events == ()


def test_a_deep_copy_raises_events_of_its_own() -> None:
    original = made(Unmapped)
    original.raise_event(FIRST)
    twin = copy.deepcopy(original)
    twin.raise_event(SECOND)
    assert original.domain_events == (FIRST,)
