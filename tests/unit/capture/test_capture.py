"""The one function that every way in ends in: what it makes, and what it refuses."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from postroom import (
    CaptureError,
    ConfigurationError,
    DomainEvent,
    Event,
    EventBus,
    EventDefinitionError,
    EventRegistry,
    Outbox,
    OutboxRecord,
)
from tests.unit.events.builders import untyped

Save = Callable[[Session | AsyncSession, Iterable[Event]], None]
ID = UUID("550e8400-e29b-41d4-a716-446655440000")
MOMENT = datetime(2026, 1, 5, tzinfo=UTC)


class CaptureRecord(OutboxRecord):
    pass


class TightRecord(OutboxRecord):
    pass


class TracedRecord(OutboxRecord):
    pass


headers: dict[str, Any] = {}
outbox = Outbox(MetaData(), record=CaptureRecord, table="captured", events=EventRegistry())
tight = Outbox(
    MetaData(),
    record=TightRecord,
    table="tight",
    events=EventRegistry(),
    max_retries=None,
    max_payload_bytes=500,
    max_header_bytes=60,
    headers=lambda: headers,
)
traced = Outbox(
    MetaData(),
    record=TracedRecord,
    table="traced",
    events=EventRegistry(),
    max_retries=3,
    headers=lambda: {"traceparent": "00-1"},
)


@dataclass(frozen=True, kw_only=True)
class MeterRead(DomainEvent, aggregate="meter", key="meter_id"):
    meter_id: str = "m-1"
    value: float = 0.0
    note: str = ""
    readings: dict[str, Any] = field(default_factory=dict)
    next: "MeterRead | None" = None


def by_dispatcher(session: Session | AsyncSession, events: Iterable[Event]) -> None:
    outbox.dispatcher(session).dispatch_sync(events)


def by_bus(session: Session | AsyncSession, events: Iterable[Event]) -> None:
    bus = EventBus()
    for event in events:
        bus.emit(event)
    outbox.middleware().flush_sync(session, bus)


def cycle() -> dict[str, Any]:
    snake: dict[str, Any] = {}
    snake["tail"] = [snake]
    return snake


def captured(*events: Event, into: Outbox = outbox) -> list[OutboxRecord]:
    session = Session()
    into.dispatcher(session).dispatch_sync(events)
    return [record for record in session.new if isinstance(record, OutboxRecord)]


@pytest.fixture(params=[by_dispatcher, by_bus])
def save(request: pytest.FixtureRequest) -> Save:
    """The ways in that need no mapped aggregate."""
    function: Save = request.param
    return function


@pytest.mark.requirement("A3")
def test_a_record_holds_what_the_event_says() -> None:
    event = MeterRead(value=1.5, occurred_at=MOMENT)
    [record] = captured(event)
    assert type(record) is CaptureRecord
    assert record.id == event.event_id
    assert (record.event_type, record.event_version) == ("MeterRead", 1)
    assert (record.aggregate_type, record.aggregate_id) == ("meter", "m-1")
    assert record.occurred_at == MOMENT
    assert record.headers == {}
    assert (record.status, record.retry_count) == ("pending", 0)
    assert record.payload == {
        "event_id": str(event.event_id),
        "occurred_at": "2026-01-05T00:00:00Z",
        "meter_id": "m-1",
        "value": 1.5,
        "note": "",
        "readings": {},
        "next": None,
    }


@pytest.mark.requirement("E4")
async def test_an_async_session_takes_the_same_record() -> None:
    event = MeterRead()
    session, twin = AsyncSession(), Session()
    await outbox.dispatcher(session).dispatch([event])
    outbox.dispatcher(twin).dispatch_sync([event])
    [one], [other] = session.new, twin.new
    columns = outbox.tables.records.c.keys()
    assert {name: getattr(one, name) for name in columns} == {
        name: getattr(other, name) for name in columns
    }
    session.expunge_all()


def test_headers_go_with_every_record() -> None:
    records = captured(MeterRead(), untyped(), into=traced)
    assert [record.headers for record in records] == [{"traceparent": "00-1"}] * 2
    records[0].headers["changed"] = 1
    assert "changed" not in records[1].headers
    retries = [captured(untyped(), into=each)[0].max_retries for each in (outbox, traced, tight)]
    assert retries == [10, 3, None]


def test_headers_are_saved_as_they_were_at_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    baggage = ["a"]
    monkeypatch.setitem(headers, "baggage", baggage)
    [record] = captured(untyped(), into=tight)
    baggage.append("b")
    assert record.headers == {"baggage": ["a"]}


async def later() -> dict[str, Any]:
    return {}


def test_headers_are_a_function_that_returns_a_mapping() -> None:
    class WrongRecord(OutboxRecord):
        pass

    for wrong in ({"trace": "1"}, None, later):
        with pytest.raises(ConfigurationError, match=r"headers is .*plain function.*a mapping"):
            Outbox(MetaData(), record=WrongRecord, headers=wrong)  # type: ignore[arg-type]
    given: list[Any] = [None, [("trace", "1")], "trace", 5]
    wrongly = Outbox(MetaData(), record=WrongRecord, headers=lambda: given.pop())
    session = Session()
    while given:
        with pytest.raises(CaptureError, match=r"`headers` .*returned a \w+\. .*a mapping"):
            wrongly.dispatcher(session).dispatch_sync([untyped()])
    assert not session.new


class Impostor(DomainEvent, name="MeterRead"):
    pass


@dataclass(frozen=True, kw_only=True)
class Impossible:  # a DomainEvent is refused where it is defined
    what: complex = 1j
    event_id: UUID = ID
    occurred_at: datetime = MOMENT


UNFIT: list[Event] = [
    MeterRead(value=math.nan),
    MeterRead(note="\ud800"),
    MeterRead(readings=cycle()),
    MeterRead(next=MeterRead(value=math.nan)),
    untyped(payload={"id": UUID(int=1)}),
    untyped(event_type=""),
    untyped(aggregate_id="x" * 10_000),
    untyped(occurred_at=datetime(2026, 1, 5)),  # noqa: DTZ001  the culprit
]
NO_EVENTS: list[Any] = [{"event_type": "x"}, "x", 5, None, object(), Impostor(), Impossible()]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        *((each, CaptureError) for each in UNFIT),
        *((each, EventDefinitionError) for each in NO_EVENTS),
    ],
)
@pytest.mark.parametrize("kind", [Session, AsyncSession])
def test_a_refused_event_keeps_the_others_out(
    save: Save, kind: type[Session | AsyncSession], bad: Any, error: type[Exception]
) -> None:
    session = kind()
    save(session, [MeterRead(note="before")])
    with pytest.raises(error):
        save(session, [MeterRead(), bad, MeterRead()])
    [record] = session.new
    assert isinstance(record, OutboxRecord)
    assert record.payload["note"] == "before"
    session.expunge_all()


def test_what_is_no_event_is_not_remembered() -> None:
    with pytest.raises(EventDefinitionError):
        by_dispatcher(Session(), [{"event_type": "x"}])  # type: ignore[list-item]
    assert "dict" not in outbox.settings.registry.event_types()


def test_a_payload_over_the_limit_is_refused() -> None:
    room = (500 - len('{"text":""}')) // 2
    [record] = captured(untyped(payload={"text": "é" * room}), into=tight)
    assert len(record.payload["text"]) == room
    session = Session()
    with pytest.raises(CaptureError, match=r"thing\.happened: its payload takes 501 bytes.*500"):
        tight.dispatcher(session).dispatch_sync(
            [untyped(), untyped(payload={"text": "é" * room + "xx"})]
        )
    assert not session.new


def test_the_default_limit_is_a_mebibyte() -> None:
    room = 1024 * 1024 - len('{"text":""}')
    assert captured(untyped(payload={"text": "x" * room}))
    with pytest.raises(CaptureError, match=r"takes 1,048,577 bytes.*1,048,576"):
        captured(untyped(payload={"text": "x" * (room + 1)}))


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"trace": "x" * 60}, r"headers takes? .* bytes.* 60"),
        ({"trace": "é" * 30}, r"headers takes? .* bytes.* 60"),
        ({"trace": math.nan}, r"these headers: field .*trace.*NaN"),
        ({"trace": "\0"}, r"these headers: field .*trace.*NUL"),
        ({"trace": MOMENT}, r"these headers: field .*trace"),
    ],
)
def test_headers_that_do_not_fit_are_refused(
    monkeypatch: pytest.MonkeyPatch, bad: dict[str, Any], error: str
) -> None:
    monkeypatch.setitem(headers, "trace", bad["trace"])
    session = Session()
    with pytest.raises(CaptureError, match=error):
        tight.dispatcher(session).dispatch_sync([untyped()])
    assert not session.new


@pytest.mark.parametrize(
    ("added", "error"),
    [
        ({"trace": "x" * 60}, r"headers take .* bytes.* 60"),
        ({"trace": math.nan}, r"field `trace` is NaN.*Pass None"),
        ({"trace": "\0"}, r"field `trace` .*NUL.*Remove it"),
        ({"trace": MOMENT}, r"field `trace` is .*datetime.*Pass a str"),
        ({7: "x"}, r"7"),
        (None, r"are a NoneType.*a dict"),
    ],
)
def test_headers_that_a_callback_spoils_are_refused_and_the_callback_is_named(
    added: Any, error: str
) -> None:
    def add_trace(record: OutboxRecord) -> None:
        record.headers = added

    own = Outbox(MetaData(), max_header_bytes=60)
    own.on_capture(add_trace)
    session = Session()
    with pytest.raises(CaptureError, match=rf"thing\.happened.*add_trace.*{error}"):
        own.dispatcher(session).dispatch_sync([untyped(), untyped()])
    assert not session.new


def test_headers_that_a_callback_adds_as_the_error_advises_are_saved() -> None:
    def add_trace(record: OutboxRecord) -> None:
        record.headers["trace"] = str(MOMENT)

    own = Outbox(MetaData())
    own.on_capture(add_trace)
    session = Session()
    own.dispatcher(session).dispatch_sync([untyped()])
    [record] = session.new
    assert record.headers == {"trace": str(MOMENT)}


@pytest.mark.parametrize("one", [MeterRead(), untyped(), None, 5, MeterRead])
async def test_one_event_instead_of_a_list_is_refused(one: Any) -> None:
    session = Session()
    with pytest.raises(CaptureError, match=r"instead of a list of events\. Give \[event\]"):
        await outbox.dispatcher(session).dispatch(one)
    assert not session.new


@given(st.text())
def test_any_text_is_taken_or_refused_clearly(text: str) -> None:
    session = Session()
    try:
        by_dispatcher(session, [untyped(payload={"text": text, text: 1})])
    except CaptureError:
        assert "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text)
        assert not session.new
    else:
        assert len(session.new) == 1
