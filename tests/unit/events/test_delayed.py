"""Events that are told of later: what they are, and what capture reads from them."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import MetaData
from sqlalchemy.orm import Session

from postroom import CaptureError, DomainEvent, Event, EventRegistry, Outbox, OutboxRecord
from postroom import UntypedEvent as Untyped
from postroom.events.delayed import Delayed, undelayed
from postroom.events.description import describe

LATER = datetime(2030, 1, 5, 12, tzinfo=UTC)


class DelayedRecord(OutboxRecord):
    pass


outbox = Outbox(MetaData(), record=DelayedRecord, table="delayed", events=EventRegistry())


class ReminderSet(DomainEvent, name="reminder.set"):
    pass


def captured(event: Event) -> OutboxRecord:
    session = Session()
    outbox.dispatcher(session).dispatch_sync([event])
    [record] = session.new
    assert isinstance(record, OutboxRecord)
    return record


def test_it_is_an_event_with_the_id_and_the_time_of_its_event() -> None:
    event = ReminderSet()
    delayed: Event = Delayed(event, until=LATER)  # mypy proves the protocol
    assert isinstance(delayed, Event)
    assert (delayed.event_id, delayed.occurred_at) == (event.event_id, event.occurred_at)


def test_the_event_itself_can_be_had_back() -> None:
    event = ReminderSet()
    assert undelayed(event) is event
    assert undelayed(Delayed(Delayed(event, until=LATER), until=LATER)) is event


@pytest.mark.requirement("E9")
@pytest.mark.parametrize(
    "event", [ReminderSet(), Untyped(event_type="x", payload={"a": 1}, aggregate_id=7)]
)
def test_it_is_described_as_its_event_with_a_time_to_wait_for(event: Event) -> None:
    assert describe(event).due_at is None
    delayed = Delayed(event, until=LATER)
    assert describe(delayed) == describe(event)._replace(due_at=LATER)
    outer = Delayed(delayed, until=LATER + timedelta(1))
    assert describe(outer).due_at == LATER + timedelta(1)


@pytest.mark.requirement("E9")
def test_its_record_waits_for_its_time() -> None:
    event = ReminderSet()
    record, bare = captured(Delayed(event, until=LATER)), captured(event)
    assert (record.ready, record.due_at) == (False, LATER)
    assert bare.ready is not False
    assert bare.due_at is None
    assert (record.id, record.event_type) == (event.event_id, "reminder.set")
    assert outbox.settings.registry.event_class("reminder.set") is ReminderSet
    assert (record.payload, record.status) == (bare.payload, "pending")


@pytest.mark.parametrize(
    "until",
    [
        datetime(2020, 1, 5, tzinfo=UTC),
        datetime(2030, 1, 5, tzinfo=timezone(timedelta(hours=5))),
        datetime.max.replace(tzinfo=UTC),
    ],
)
def test_any_moment_will_do(until: datetime) -> None:
    assert captured(Delayed(ReminderSet(), until=until)).due_at == until


@pytest.mark.parametrize(
    "until",
    [
        datetime(2030, 1, 5),  # noqa: DTZ001
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))),
        date(2030, 1, 5),
        timedelta(hours=1),
        None,
    ],
)
def test_what_is_no_moment_is_refused(until: Any) -> None:
    error = r"cannot capture reminder\.set: field `until` is .*no moment in UTC.*now\(UTC\)"
    with pytest.raises(CaptureError, match=error):
        captured(Delayed(ReminderSet(), until=until))


def test_what_is_wrong_with_the_event_itself_is_said_first() -> None:
    broken = Untyped(event_type="x", payload={"n": float("nan")})
    with pytest.raises(CaptureError, match="NaN"):
        captured(Delayed(broken, until=datetime(2030, 1, 5)))  # noqa: DTZ001
