"""Delayed events on real databases, by all three ways in: saved now, due later."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from postroom import CaptureError, CaptureWarning, EventBus, OutboxRecord, UntypedEvent
from postroom.events.delayed import Delayed
from tests.support.shop import Account, AccountClosed, AccountRenamed, Invoice, InvoiceIssued
from tests.support.shop import outbox as shop_outbox
from tests.support.story import story

LATER = datetime(2030, 1, 5, 12, tzinfo=timezone(timedelta(hours=5)))
POSITION = shop_outbox.tables.records.c.position


def saved(session: Session) -> list[OutboxRecord]:
    session.commit()
    session.expunge_all()
    return list(session.scalars(select(OutboxRecord).order_by(POSITION)))


def dues(session: Session) -> list[tuple[str, bool, datetime | None]]:
    return [(record.event_type, record.ready, record.due_at) for record in saved(session)]


@pytest.mark.requirement("E9", "E4")
@story
def test_a_dispatched_event_waits_for_its_time(session: Session) -> None:
    event = UntypedEvent(event_type="x", payload={"a": 1}, aggregate_type="t", aggregate_id=7)
    shop_outbox.dispatcher(session).dispatch_sync([Delayed(event, until=LATER)])
    [record] = saved(session)
    assert (record.ready, record.due_at, record.status) == (False, LATER, "pending")
    assert (record.id, record.event_type) == (event.event_id, "x")
    assert (record.aggregate_type, record.aggregate_id) == ("t", "7")
    assert (record.payload, record.occurred_at) == ({"a": 1}, event.occurred_at)


@pytest.mark.requirement("E9", "E4")
@story
def test_an_emitted_event_waits_for_its_time(session: Session) -> None:
    bus, account = EventBus(), Account.open("Ann")
    bus.emit(Delayed(UntypedEvent(event_type="x", payload={"event_type": "y"}), until=LATER))
    bus.emit(Delayed(AccountClosed(account_id=account.id), until=LATER))
    assert shop_outbox.middleware().flush_sync(session, bus, user_id=1) == 2
    untyped, typed = saved(session)
    assert (untyped.ready, untyped.due_at) == (typed.ready, typed.due_at) == (False, LATER)
    assert untyped.payload["event_type"] == "x"  # the envelope goes over it
    assert (typed.payload["event_type"], typed.payload["user_id"]) == ("AccountClosed", 1)


@pytest.mark.requirement("E9", "E4")
@story
def test_a_raised_event_waits_for_its_time(session: Session) -> None:
    account = Account.open("Ann")
    closed = AccountClosed(account_id=account.id)
    account.raise_event(Delayed(closed, until=LATER))
    account.rename("Bea")
    session.add(account)
    assert dues(session) == [
        ("AccountOpened", True, None),
        ("AccountClosed", False, LATER),
        ("AccountRenamed", True, None),
    ]


@pytest.mark.requirement("E9")
@story
def test_an_event_that_waits_for_an_id_of_the_database_can_be_delayed(session: Session) -> None:
    invoice = Invoice()
    invoice.raise_event(Delayed(InvoiceIssued(total=1), until=LATER))
    invoice.raise_event(InvoiceIssued(total=2))
    session.add(invoice)
    first, second = saved(session)
    assert (first.payload["total"], first.due_at) == (1, LATER)
    assert (second.payload["total"], second.due_at) == (2, None)
    assert (first.aggregate_type, first.aggregate_id) == ("Invoice", second.aggregate_id)


@pytest.mark.requirement("E9")
@story
def test_a_rollback_gives_the_delay_back_with_the_event(session: Session) -> None:
    account = Account(id=Account.open("Ann").id, name="Ann", email="a@b.com")
    account.raise_event(Delayed(AccountClosed(account_id=account.id), until=LATER))
    session.add(account)
    session.flush()
    session.rollback()
    session.add(account)
    assert dues(session) == [("AccountClosed", False, LATER)]


@pytest.mark.requirement("E9")
@story
def test_a_moment_in_the_past_is_due_at_once(session: Session) -> None:
    past = datetime(2020, 1, 5, tzinfo=UTC)
    event = UntypedEvent(event_type="x", payload={})
    shop_outbox.dispatcher(session).dispatch_sync([Delayed(event, until=past)])
    assert dues(session) == [("x", False, past)]


@story
def test_a_moment_without_a_zone_is_refused_and_nothing_is_added(session: Session) -> None:
    account = Account.open("Ann")
    naive = datetime(2030, 1, 5)  # noqa: DTZ001
    session.add(account)
    with pytest.raises(CaptureError, match=r"AccountClosed: .*`until`"):
        account.raise_event(Delayed(AccountClosed(account_id=account.id), until=naive))
    assert len(account.domain_events) == 1


def test_a_warning_names_the_event_and_not_its_delay(session: Session) -> None:
    account = Account(id=Account.open("Ann").id, name="Ann", email="a@b.com")
    event = AccountRenamed(account_id=account.id, name="Bea")
    account.raise_event(Delayed(event, until=LATER))
    with pytest.warns(CaptureWarning, match=r"\(AccountRenamed\)"):
        session.merge(account)
