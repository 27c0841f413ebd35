"""The event bus, and the middleware that empties it into a session."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import MetaData, event
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from postroom import (
    CaptureError,
    Delayed,
    DomainEvent,
    Event,
    EventBus,
    EventDefinitionError,
    EventRegistry,
    Outbox,
    OutboxMiddleware,
    OutboxRecord,
    UntypedEvent,
    deserialize_event,
)
from postroom.events.payload import encode_event
from postroom.integrations.fastapi import get_event_bus, get_outbox_middleware

ID = UUID("550e8400-e29b-41d4-a716-446655440000")
MOMENT = datetime(2026, 2, 8, 12, tzinfo=UTC)


class BusRecord(OutboxRecord):
    pass


outbox = Outbox(MetaData(), record=BusRecord, table="bus_events", events=EventRegistry())


@dataclass(frozen=True, kw_only=True)
class MessageQueued(DomainEvent, aggregate="message", key="message_id"):
    message_id: int
    text: str = ""


def created(number: int = 1, **values: Any) -> UntypedEvent:
    event: dict[str, Any] = {
        "event_type": "group_message.created",
        "aggregate_type": "group_message",
        "aggregate_id": ID,
        "payload": {"number": number},
        "occurred_at": MOMENT,
    }
    return UntypedEvent(**event | values)


def bus_with(*events: Event) -> EventBus:
    bus = EventBus()
    for one in events:
        bus.emit(one)
    return bus


def added(session: Session | AsyncSession) -> list[OutboxRecord]:
    return [record for record in session.new if isinstance(record, OutboxRecord)]


@pytest.fixture
def middleware() -> OutboxMiddleware:
    return outbox.middleware()


@pytest.mark.requirement("C2")
def test_a_new_bus_is_empty() -> None:
    assert bus_with(created()).has_events
    bus = EventBus()
    assert (bus.has_events, bus.event_count, bus.events, bus.collect()) == (False, 0, (), [])


@pytest.mark.requirement("C2", "C18")
def test_emitted_events_are_listed_in_order_and_collected_once() -> None:
    events = [created(number) for number in range(5)]
    bus = bus_with(*events)
    assert (bus.has_events, bus.event_count, bus.events) == (True, 5, tuple(events))
    collected = bus.collect()
    assert (bus.has_events, bus.event_count, bus.collect()) == (False, 0, [])
    bus.emit(created())
    assert collected == events


@pytest.mark.requirement("C2", "C4")
async def test_the_dependencies_give_a_new_bus_and_a_middleware() -> None:
    assert await get_event_bus() is not await get_event_bus()
    assert isinstance(await get_event_bus(), EventBus)
    assert isinstance(await get_outbox_middleware(), OutboxMiddleware)


@pytest.mark.requirement("C4", "C1", "C18")
async def test_a_flush_adds_a_record_per_event_in_order(middleware: OutboxMiddleware) -> None:
    session = Session()
    events = [created(number) for number in range(3)]
    bus = bus_with(*events)
    assert await middleware.flush(session, bus) == 3
    records = added(session)
    assert {type(record) for record in records} == {BusRecord}
    by_number = sorted(records, key=lambda record: record.payload["number"])
    assert [record.id for record in by_number] == [one.event_id for one in events]
    assert not bus.has_events


@pytest.mark.requirement("C4", "C18")
@pytest.mark.parametrize("queued", [True, False], ids=["typed", "untyped"])
async def test_a_flush_adds_the_envelope(middleware: OutboxMiddleware, queued: bool) -> None:
    session = Session()
    typed = MessageQueued(message_id=7, text="hello", event_id=ID, occurred_at=MOMENT)
    event = typed if queued else created(aggregate_id="7")
    name, aggregate = (
        ("MessageQueued", "message") if queued else ("group_message.created", "group_message")
    )
    await middleware.flush(session, bus_with(event))
    [record] = added(session)
    assert record.payload == encode_event(event) | {
        "event_type": name,
        "aggregate_type": aggregate,
        "aggregate_id": "7",
        "timestamp": "2026-02-08T12:00:00Z",
    }
    assert (record.event_type, record.aggregate_type) == (name, aggregate)
    assert (record.aggregate_id, record.status, record.occurred_at) == ("7", "pending", MOMENT)


@pytest.mark.requirement("C4", "C18")
async def test_a_flush_adds_the_context_with_ids_as_strings(middleware: OutboxMiddleware) -> None:
    session = Session()
    await middleware.flush(
        session, bus_with(created(1), created(2)), user_id=ID, request_id="r-1", tenant=None
    )
    for record in added(session):
        assert record.payload["user_id"] == str(ID)
        assert record.payload["request_id"] == "r-1"
        assert record.payload["tenant"] is None


@pytest.mark.requirement("C4")
async def test_context_goes_over_envelope_and_envelope_over_payload(
    middleware: OutboxMiddleware,
) -> None:
    session = Session()
    mine = {"event_type": "mine", "timestamp": "mine", "user_id": "mine", "number": 1}
    bus = bus_with(created(payload=mine))
    await middleware.flush(session, bus, user_id="theirs", timestamp="theirs")
    [record] = added(session)
    assert record.payload["event_type"] == "group_message.created"
    assert record.payload["timestamp"] == "theirs"
    assert record.payload["user_id"] == "theirs"
    assert record.payload["number"] == 1
    assert record.event_type == "group_message.created"
    assert mine == {"event_type": "mine", "timestamp": "mine", "user_id": "mine", "number": 1}


@pytest.mark.requirement("C4")
async def test_a_flush_does_not_flush_or_commit_the_session(middleware: OutboxMiddleware) -> None:
    session = Session()
    calls: list[str] = []
    for name in ("before_flush", "before_commit", "after_begin"):
        event.listen(session, name, lambda *_, name=name: calls.append(name))
    await middleware.flush(session, bus_with(created()))
    assert calls == []
    assert len(added(session)) == 1
    empty = Session()
    assert await middleware.flush(empty, EventBus(), user_id=ID) == 0
    assert not empty.new
    assert not empty.in_transaction()


@pytest.mark.requirement("C4", "E4")
async def test_an_async_session_takes_the_same(middleware: OutboxMiddleware) -> None:
    session, twin = AsyncSession(), Session()
    await middleware.flush(session, bus_with(created()), user_id=ID)
    middleware.flush_sync(twin, bus_with(created()), user_id=ID)
    assert [record.payload for record in added(session)] == [
        record.payload for record in added(twin)
    ]
    session.expunge_all()


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("good_first", [True, False])
async def test_a_refused_event_leaves_bus_and_session_as_they_were(
    middleware: OutboxMiddleware, good_first: bool
) -> None:
    session = Session()
    events = [created(1), created(2, payload={"text": "x" * 2**20})]
    bus = bus_with(*(events if good_first else reversed(events)))
    before = bus.events
    with pytest.raises(CaptureError, match=r"group_message\.created.*payload takes"):
        await middleware.flush(session, bus)
    assert bus.events == before
    assert not session.new


@pytest.mark.requirement("C4")
def test_an_event_that_cannot_be_saved_is_refused_when_it_is_emitted() -> None:
    bus = bus_with(created(1))
    with pytest.raises(CaptureError, match=r"group_message\.created.*price.*NaN"):
        bus.emit(created(2, payload={"price": float("nan")}))
    assert bus.event_count == 1


@pytest.mark.requirement("C4")
async def test_an_event_is_saved_as_it_was_emitted(middleware: OutboxMiddleware) -> None:
    session, tags = Session(), ["a"]
    bus = bus_with(created(payload={"tags": tags}))
    tags.append("b")
    bus.emit(created(payload={"tags": tags}))
    tags.clear()
    assert [encode_event(one) for one in bus.events] == [{"tags": ["a"]}, {"tags": ["a", "b"]}]
    await middleware.flush(session, bus)
    assert sorted(record.payload["tags"] for record in added(session)) == [["a"], ["a", "b"]]


def emitting_outbox(bus: EventBus, numbers: int) -> Outbox:
    """An outbox whose capture emits further events, up to a number."""

    class EmittingRecord(OutboxRecord):
        pass

    emitting = Outbox(MetaData(), record=EmittingRecord, events=EventRegistry())

    def emit_next(record: OutboxRecord) -> None:
        if record.payload["number"] < numbers:
            bus.emit(created(record.payload["number"] + 1))

    emitting.on_capture(emit_next)
    return emitting


@pytest.mark.requirement("C4")
async def test_events_that_a_flush_makes_others_emit_are_saved_by_it() -> None:
    session, bus = Session(), bus_with(created(1))
    assert await emitting_outbox(bus, 3).middleware().flush(session, bus) == 3
    assert sorted(record.payload["number"] for record in added(session)) == [1, 2, 3]
    assert not bus.has_events


@pytest.mark.requirement("C4")
async def test_a_flush_that_makes_others_emit_without_end_is_an_error() -> None:
    session, bus = Session(), bus_with(created(1))
    with pytest.raises(CaptureError, match=r"after 100 rounds.*on_capture.*have it end"):
        await emitting_outbox(bus, 1000).middleware().flush(session, bus)


@pytest.mark.requirement("C4")
async def test_the_context_is_saved_as_it_was_at_the_flush(middleware: OutboxMiddleware) -> None:
    session, roles = Session(), ["admin"]
    await middleware.flush(session, bus_with(created()), user={"roles": roles})
    roles.clear()
    assert [record.payload["user"] for record in added(session)] == [{"roles": ["admin"]}]


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("bad", [float("nan"), "a\0b", "\ud800", MOMENT, [ID], {1: 2}])
async def test_a_context_that_json_cannot_hold_is_refused(
    middleware: OutboxMiddleware, bad: Any
) -> None:
    session, bus = Session(), bus_with(created())
    with pytest.raises(CaptureError, match=r"cannot flush with this context: field .*user"):
        await middleware.flush(session, bus, user=bad)
    assert bus.event_count == 1
    assert not session.new


@pytest.mark.requirement("C4")
async def test_the_envelope_and_the_context_count_towards_the_limit() -> None:
    class SmallRecord(OutboxRecord):
        pass

    small = Outbox(MetaData(), record=SmallRecord, table="small", max_payload_bytes=200)
    session, bus = Session(), bus_with(created())
    assert await small.middleware().flush(session, bus) == 1
    bus.emit(created())
    session.expunge_all()
    with pytest.raises(CaptureError, match=r"payload takes .* 200"):
        await small.middleware().flush(session, bus, note="x" * 200)
    assert not session.new


@pytest.mark.requirement("C4")
async def test_the_context_may_use_any_name(middleware: OutboxMiddleware) -> None:
    session = Session()
    context = {"session": "s-1", "bus": "number 7", "self": "me"}
    await middleware.flush(session, bus_with(created()), **context)
    [record] = added(session)
    assert record.payload | context == record.payload


@dataclass(frozen=True, kw_only=True)
class Stamped(DomainEvent, aggregate="stamp", key="number"):
    """Has fields with the names of the envelope, and of what a context often holds."""

    number: int
    event_type: str
    aggregate_type: str
    aggregate_id: str
    timestamp: str
    user_id: str


@dataclass(frozen=True, kw_only=True)
class CamelStamped(DomainEvent, case="camel"):
    user_id: str = "u-1"


STAMPED = Stamped(
    number=7,
    event_type="my type",
    aggregate_type="my aggregate",
    aggregate_id="my id",
    timestamp="my time",
    user_id="u-1",
)


@pytest.mark.requirement("C4")
async def test_the_fields_of_a_typed_event_win_over_the_envelope(
    middleware: OutboxMiddleware,
) -> None:
    session = Session()
    await middleware.flush(session, bus_with(STAMPED), request_id="r-1")
    [record] = added(session)
    assert record.payload["request_id"] == "r-1"
    names = ("event_type", "aggregate_type", "aggregate_id", "timestamp")
    assert [record.payload[name] for name in names] == [getattr(STAMPED, name) for name in names]
    assert (record.event_type, record.aggregate_type) == ("Stamped", "stamp")
    assert record.aggregate_id == "7"
    registry = outbox.settings.registry
    assert deserialize_event("Stamped", record.payload, registry=registry) == STAMPED


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("value", ["u-1", "another", None])
@pytest.mark.parametrize("name", ["user_id", "timestamp", "event_id", "event_version"])
async def test_a_context_with_the_name_of_a_field_is_refused_whatever_its_value(
    middleware: OutboxMiddleware, name: str, value: str | None
) -> None:
    """The class could not be rebuilt as it was. An untyped payload has no class to be true to."""
    session, bus = Session(), bus_with(created(), STAMPED)
    with pytest.raises(CaptureError, match=rf"Stamped: `{name}` is the event's own.*Leave.*rename"):
        await middleware.flush(session, bus, **{name: value})
    assert not session.new
    assert bus.event_count == 2


@pytest.mark.requirement("C4")
async def test_the_name_of_a_field_is_its_name_in_the_payload(middleware: OutboxMiddleware) -> None:
    session = Session()
    await middleware.flush(session, bus_with(CamelStamped()), user_id="another")
    [record] = added(session)
    assert (record.payload["userId"], record.payload["user_id"]) == ("u-1", "another")
    with pytest.raises(CaptureError, match="`userId`"):
        await middleware.flush(session, bus_with(CamelStamped()), userId="u-1")


@pytest.mark.parametrize("wrong", [{"event_type": "x"}, None, MessageQueued])
def test_what_is_no_event_is_refused_when_it_is_emitted(wrong: Any) -> None:
    bus = EventBus()
    with pytest.raises(EventDefinitionError):
        bus.emit(wrong)
    assert not bus.has_events


def test_an_event_is_emitted_once() -> None:
    event = created()
    bus = bus_with(event)
    with pytest.raises(CaptureError, match=rf"has the event {event.event_id} .*Make a new one"):
        bus.emit(Delayed(event, until=MOMENT))
    assert bus.collect() == [event]
    bus.emit(event)
