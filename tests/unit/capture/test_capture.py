"""The one function that every way in ends in: what it makes, and what it refuses."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
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
    UntypedEvent,
)

Save = Callable[[Session | AsyncSession, Iterable[Event]], None]
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


def untyped(**values: Any) -> UntypedEvent:
    return UntypedEvent(**{"event_type": "thing.happened", "payload": {}} | values)


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
    assert (record.status, record.retry_count, record.max_retries) == ("pending", 0, 10)
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


def test_an_outbox_says_how_often_to_retry() -> None:
    assert captured(untyped(), into=traced)[0].max_retries == 3
    assert captured(untyped(), into=tight)[0].max_retries is None


@pytest.mark.parametrize(
    ("bad", "where", "problem"),
    [
        (MeterRead(value=math.nan), "value", "NaN"),
        (MeterRead(value=math.inf), "value", "infinit"),
        (MeterRead(value=-math.inf), "value", "infinit"),
        (MeterRead(note="a\0b"), "note", "NUL"),
        (MeterRead(note="\ud800"), "note", "surrogate"),
        (MeterRead(meter_id="\0"), "meter_id", "NUL"),
        (MeterRead(readings={"deep": [1, {"x": math.nan}]}), r"readings.*deep.*\[1\]", "NaN"),
        (MeterRead(readings={"a\0": 1}), "readings", "NUL"),
        (MeterRead(readings={"\udfff": 1}), "readings", "surrogate"),
        (MeterRead(readings=cycle()), "readings", "contains itself"),
        (MeterRead(next=MeterRead(value=math.nan)), r"next\.value", "NaN"),
        (MeterRead(readings={"when": MOMENT}), "readings", "datetime"),
        (MeterRead(value="1.5"), "value", "str"),  # type: ignore[arg-type]
        (MeterRead(note=None), "note", "None"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_json_cannot_hold_is_refused(
    save: Save, bad: Event, where: str, problem: str
) -> None:
    session = Session()
    with pytest.raises(
        CaptureError, match=rf"(?i)cannot capture MeterRead: field `{where}.*{problem}"
    ):
        save(session, [bad])
    assert not session.new


def test_a_cycle_of_events_is_refused(save: Save) -> None:
    snake = MeterRead()
    object.__setattr__(snake, "next", snake)
    session = Session()
    with pytest.raises(
        CaptureError, match=r"cannot capture MeterRead: field `next.*contains itself"
    ):
        save(session, [snake])
    assert not session.new


@pytest.mark.parametrize(
    ("bad", "where", "problem"),
    [
        ({"price": math.nan}, "price", "NaN"),
        ({"a": {"b": [math.inf]}}, r"a.*b.*\[0\]", "infinit"),
        ({"name": "\0"}, "name", "NUL"),
        ({"name": "\udc80"}, "name", "surrogate"),
        ({"loop": cycle()}, "loop", "contains itself"),
        ({"id": UUID(int=1)}, "id", "UUID"),
        ({"pair": (1, 2)}, "pair", "tuple"),
    ],
)
def test_an_untyped_payload_that_json_cannot_hold_is_refused(
    save: Save, bad: dict[str, Any], where: str, problem: str
) -> None:
    session = Session()
    with pytest.raises(
        CaptureError, match=rf"(?i)cannot capture thing\.happened: field `.*{where}.*{problem}"
    ):
        save(session, [untyped(payload=bad)])
    assert not session.new


def test_the_second_event_being_bad_keeps_the_first_out(save: Save) -> None:
    session = Session()
    with pytest.raises(CaptureError, match="NaN"):
        save(session, [MeterRead(), MeterRead(value=math.nan), MeterRead()])
    assert not session.new


def test_what_the_session_holds_already_stays(save: Save) -> None:
    session = Session()
    save(session, [MeterRead(note="before")])
    with pytest.raises(CaptureError):
        save(session, [MeterRead(value=math.nan)])
    [record] = session.new
    assert isinstance(record, OutboxRecord)
    assert record.payload["note"] == "before"


def test_an_async_session_is_left_alone_too() -> None:
    session = AsyncSession()
    with pytest.raises(CaptureError):
        by_dispatcher(session, [MeterRead(), MeterRead(value=math.nan)])
    assert not session.new


def test_a_payload_over_the_limit_is_refused() -> None:
    room = 500 - len('{"text":""}')
    [record] = captured(untyped(payload={"text": "x" * room}), into=tight)
    assert len(record.payload["text"]) == room
    session = Session()
    with pytest.raises(CaptureError, match=r"thing\.happened: its payload takes 501 bytes.*500"):
        tight.dispatcher(session).dispatch_sync(
            [untyped(), untyped(payload={"text": "x" * (room + 1)})]
        )
    assert not session.new


def test_the_limit_counts_bytes_and_not_characters() -> None:
    with pytest.raises(CaptureError, match="payload takes"):
        captured(untyped(payload={"text": "é" * 250}), into=tight)


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


@pytest.mark.parametrize("wrong", [None, [("trace", "1")], "trace", 5])
def test_headers_that_are_no_mapping_are_refused(wrong: Any) -> None:
    class WrongRecord(OutboxRecord):
        pass

    wrongly = Outbox(MetaData(), record=WrongRecord, headers=lambda: wrong)
    session = Session()
    with pytest.raises(CaptureError, match=r"`headers` .*returned a \w+\. .*a mapping, such as {}"):
        wrongly.dispatcher(session).dispatch_sync([untyped()])
    assert not session.new


def test_headers_are_a_function_that_is_not_async() -> None:
    class WrongRecord(OutboxRecord):
        pass

    async def later() -> dict[str, Any]:
        return {}

    for wrong in ({"trace": "1"}, None, later):
        with pytest.raises(ConfigurationError, match=r"headers is .*plain function.*a mapping"):
            Outbox(MetaData(), record=WrongRecord, headers=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("longest", ["x" * 255, "é" * 127 + "x", "💌" * 63 + "xyz"])
def test_an_event_type_has_at_most_255_bytes(save: Save, longest: str) -> None:
    session = Session()
    save(session, [untyped(event_type=longest)])
    [record] = session.new
    assert isinstance(record, OutboxRecord)
    assert record.event_type == longest
    session = Session()
    with pytest.raises(CaptureError, match=r"`event_type` has 256 bytes.*255"):
        save(session, [untyped(), untyped(event_type=f"{longest}x")])
    assert not session.new


def test_a_class_with_too_long_a_name_is_refused() -> None:
    session = Session()
    long: Any = type("L" * 256, (DomainEvent,), {})
    with pytest.raises(CaptureError, match=r"256 bytes"):
        by_dispatcher(session, [long()])
    assert not session.new


def test_an_event_type_is_not_empty(save: Save) -> None:
    session = Session()
    with pytest.raises(CaptureError, match="`event_type` has 0 bytes"):
        save(session, [untyped(event_type="")])
    assert not session.new


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800"])
@pytest.mark.parametrize("where", ["event_type", "aggregate_type", "aggregate_id"])
def test_a_name_or_key_that_the_database_refuses_is_refused_here(
    save: Save, where: str, bad: str
) -> None:
    session = Session()
    with pytest.raises(CaptureError, match=where):
        save(session, [untyped(), untyped(**{where: bad})])
    assert not session.new


@pytest.mark.parametrize("bad", [5, None, b"x"])
def test_an_event_type_that_is_no_text_is_refused(save: Save, bad: Any) -> None:
    session = Session()
    with pytest.raises(CaptureError, match="event_type"):
        save(session, [untyped(event_type=bad)])
    assert not session.new


@pytest.mark.parametrize("kind", [MeterRead, untyped])
def test_a_time_without_a_zone_is_refused_here(save: Save, kind: Callable[..., Event]) -> None:
    session = Session()
    with pytest.raises(
        CaptureError, match=r"(MeterRead|thing\.happened).*`occurred_at`.*(zone|UTC)"
    ):
        save(session, [kind(occurred_at=datetime(2026, 1, 5))])  # noqa: DTZ001  the culprit
    assert not session.new


def test_a_time_that_is_no_time_in_utc_is_refused_here(save: Save) -> None:
    dawn = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    session = Session()
    with pytest.raises(CaptureError, match=r"thing\.happened.*`occurred_at`"):
        save(session, [untyped(occurred_at=dawn)])
    assert not session.new


@pytest.mark.parametrize("where", ["aggregate_type", "aggregate_id"])
def test_a_key_that_no_index_takes_is_refused_here(save: Save, where: str) -> None:
    session = Session()
    with pytest.raises(CaptureError, match=where):
        save(session, [untyped(**{where: "x" * 10_000})])
    assert not session.new


@pytest.mark.parametrize("weird", [1.5, b"x", (1, 2), {"a": 1}])
def test_a_weird_aggregate_id_is_refused(save: Save, weird: Any) -> None:
    session = Session()
    with pytest.raises(CaptureError, match="as an aggregate's id"):
        save(session, [untyped(), untyped(aggregate_id=weird)])
    assert not session.new


@pytest.mark.parametrize("no_event", [{"event_type": "x"}, "x", 5, None, object()])
def test_what_is_no_event_is_refused(save: Save, no_event: Any) -> None:
    session = Session()
    with pytest.raises(EventDefinitionError):
        save(session, [untyped(), no_event])
    assert not session.new


def test_what_is_no_event_is_not_remembered() -> None:
    with pytest.raises(EventDefinitionError):
        by_dispatcher(Session(), [{"event_type": "x"}])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="Known") as caught:
        outbox.settings.registry.event_class("nobody")
    assert "dict" not in str(caught.value)


def test_two_classes_with_one_name_are_refused(save: Save) -> None:
    class Impostor(DomainEvent, name="MeterRead"):
        pass

    session = Session()
    with pytest.raises(EventDefinitionError, match=r"'MeterRead'.*MeterRead.*Impostor"):
        save(session, [MeterRead(), Impostor()])
    assert not session.new


def test_a_class_that_cannot_be_an_event_is_refused(save: Save) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Impossible(DomainEvent):
        what: complex = 1j

    session = Session()
    with pytest.raises(EventDefinitionError, match=r"Impossible cannot be an event.*`what`"):
        save(session, [untyped(), Impossible()])
    assert not session.new


def test_events_may_be_any_iterable() -> None:
    session = Session()
    outbox.dispatcher(session).dispatch_sync(untyped() for _ in range(3))
    assert len(session.new) == 3


@pytest.mark.parametrize("one", [MeterRead(), untyped(), None, 5, MeterRead])
async def test_one_event_instead_of_a_list_is_refused(one: Any) -> None:
    session = Session()
    with pytest.raises(CaptureError, match=r"instead of a list of events\. Give \[event\]"):
        await outbox.dispatcher(session).dispatch(one)
    assert not session.new


def test_no_events_add_nothing() -> None:
    session = Session()
    outbox.dispatcher(session).dispatch_sync([])
    assert not session.new


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(-1e15, 1e15)
        | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    )
)
def test_any_json_is_taken_as_it_is(value: Any) -> None:
    [record] = captured(untyped(payload={"value": value}))
    assert record.payload["value"] == value


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
