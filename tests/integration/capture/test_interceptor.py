"""The interceptor, under every way that a session works."""

import gc
import weakref
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import delete, event, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
)
from sqlalchemy.orm import Session

from postroom import CaptureError, CaptureWarning, DomainEvent, OutboxRecord
from postroom.identity import uuid7
from tests.support.shop import (
    Account,
    AccountOpened,
    AccountRenamed,
    DayBook,
    Invoice,
    InvoiceIssued,
    Note,
    OrderLine,
    outbox,
)
from tests.support.story import story

pytestmark = [
    pytest.mark.requirement("D3"),
    pytest.mark.no_cover,  # others cover the same, for less time
]


def records(session: Session) -> list[OutboxRecord]:
    return list(session.scalars(select(OutboxRecord).order_by(outbox.tables.records.c.position)))


def types(session: Session) -> list[str]:
    return [record.event_type for record in records(session)]


def saved(session: Session, name: str = "Ann") -> Account:
    """An account that is in the database, with no events left."""
    account = Account.open(name)
    account.clear_events()
    session.add(account)
    session.commit()
    return account


@pytest.mark.requirement("D4", "E4")
@story
def test_saving_an_aggregate_saves_its_events(session: Session) -> None:
    account = Account.open("Ann")
    session.add(account)
    session.commit()
    [record] = records(session)
    assert record.event_type == "AccountOpened"
    assert record.event_version == 1
    assert (record.aggregate_type, record.aggregate_id) == ("account", str(account.id))
    assert record.payload["email"] == "a@b.com"
    assert record.status == "pending"
    assert record.id == UUID(record.payload["event_id"])


@pytest.mark.requirement("D4")
@story
def test_the_aggregate_gives_its_type_and_id_when_the_event_does_not(session: Session) -> None:
    first, second = Invoice.issue(1), Invoice.issue(2)
    session.add_all([first, second])
    session.commit()
    keys = [(record.aggregate_type, record.aggregate_id) for record in records(session)]
    assert keys == [("Invoice", str(first.id)), ("Invoice", str(second.id))]


@pytest.mark.requirement("D5")
@story
def test_events_are_captured_once(session: Session) -> None:
    account = Account.open("Ann")
    session.add(account)
    session.flush()
    assert account.domain_events == ()
    account.email = "b@c.com"
    session.flush()
    session.commit()
    session.commit()
    assert types(session) == ["AccountOpened"]


@story
def test_autoflush_captures(session: Session) -> None:
    session.add(Account.open("Ann"))
    assert session.scalars(select(Account.name)).all() == ["Ann"]
    assert types(session) == ["AccountOpened"]


@story
def test_an_event_without_a_changed_column_is_captured(session: Session) -> None:
    account = saved(session)
    account.close()
    session.commit()
    assert types(session) == ["AccountClosed"]


@story
def test_an_aggregate_that_only_the_session_refers_to_keeps_its_events(session: Session) -> None:
    account = saved(session)
    session.refresh(account)
    account.close()
    reference = weakref.ref(account)
    del account
    gc.collect()
    assert reference() is not None
    session.commit()
    assert types(session) == ["AccountClosed"]


@story
def test_two_aggregates_are_captured_in_order_of_raising(session: Session) -> None:
    first, second = Account.open("Ann"), Account.open("Bob")
    second.rename("Bert")
    first.rename("Anna")
    session.add_all([second, first])
    session.commit()
    names = [record.payload.get("name", record.aggregate_id) for record in records(session)]
    assert names == [str(first.id), str(second.id), "Bert", "Anna"]


@story
def test_a_wait_for_an_id_does_not_change_the_order(session: Session) -> None:
    session.add_all([Invoice.issue(1), Account.open("Ann"), Invoice.issue(2)])
    session.commit()
    assert types(session) == ["InvoiceIssued", "AccountOpened", "InvoiceIssued"]


@story
def test_a_deleted_aggregate_s_events_are_captured(session: Session) -> None:
    account = saved(session)
    account.close()
    session.delete(account)
    session.commit()
    assert types(session) == ["AccountClosed"]
    assert session.scalars(select(Account)).all() == []


@story
def test_a_detached_aggregate_brings_its_events_along(session: Session) -> None:
    account = saved(session)
    session.refresh(account)
    session.expunge(account)
    account.close()
    session.add(account)
    session.commit()
    assert types(session) == ["AccountClosed"]


@story
def test_a_released_savepoint_keeps_its_events(session: Session) -> None:
    account = saved(session)
    with session.begin_nested():
        account.rename("Anna")
    session.commit()
    assert types(session) == ["AccountRenamed"]


@pytest.mark.requirement("D5")
@story
def test_a_savepoint_rolled_back_leaves_the_events_before_it(session: Session) -> None:
    account = saved(session)
    account.rename("Anna")
    savepoint = session.begin_nested()
    account.rename("Annabel")
    session.flush()
    savepoint.rollback()
    assert account.name == "Anna"
    session.commit()
    assert [record.payload["name"] for record in records(session)] == ["Anna"]


@pytest.mark.requirement("D5")
@story
def test_a_savepoint_rolled_back_before_a_flush_takes_its_events_along(session: Session) -> None:
    account = saved(session)
    savepoint = session.begin_nested()
    account.rename("Annabel")
    savepoint.rollback()
    session.commit()
    assert account.name == "Ann"
    assert types(session) == []


@pytest.mark.requirement("D5")
@story
def test_a_released_savepoint_s_events_come_back_when_the_transaction_fails(
    session: Session,
) -> None:
    account = Account.open("Ann")
    with session.begin_nested():
        session.add(account)
    assert account.domain_events == ()
    session.rollback()
    assert list(map(type, account.domain_events)) == [AccountOpened]


@pytest.mark.requirement("D5", "A5")
@story
def test_a_rollback_leaves_no_record_and_the_next_save_captures_again(session: Session) -> None:
    account = Account.open("Ann")
    session.add(account)
    session.flush()
    [record_id] = [record.id for record in records(session)]
    session.rollback()
    assert types(session) == []
    account.rename("Anna")
    session.add(account)
    session.commit()
    assert types(session) == ["AccountOpened", "AccountRenamed"]
    assert records(session)[0].id == record_id


@pytest.mark.parametrize("depth", [1, 2, 3])
@story
def test_a_record_that_waited_for_an_id_survives_a_savepoint_that_does_not(
    session: Session, depth: int
) -> None:
    """It is made after the flush of begin_nested(), and inserted by the next: in the savepoint."""

    session.add(Invoice.issue(1))
    savepoint = session.begin_nested()
    for _ in range(depth - 1):
        with session.begin_nested():
            session.add(Note(text="x"))
    session.add(Note(text="y"))
    session.flush()
    savepoint.rollback()
    session.commit()
    assert types(session) == ["InvoiceIssued"]
    assert session.scalars(select(Note)).all() == []


@story
def test_a_thousand_events_of_one_aggregate_are_captured_in_order(session: Session) -> None:
    account = saved(session)
    for number in range(1000):
        account.rename(str(number))
    session.commit()
    names = [record.payload["name"] for record in records(session)]
    assert names == [str(number) for number in range(1000)]


@story
def test_what_a_rollback_sets_back_is_not_told_later(session: Session) -> None:
    """The state of an aggregate that was there before is the database's again: it has no news."""

    flushed, unflushed = saved(session, "Ann"), saved(session, "Bob")
    flushed.rename("Anna")
    session.flush()
    unflushed.rename("Bert")
    session.rollback()
    flushed.close()
    unflushed.email = "c@d.com"
    session.commit()
    assert types(session) == ["AccountClosed"]


@pytest.mark.requirement("D5")
@pytest.mark.parametrize("play", ["postgresql-async"], indirect=True)
@story
def test_a_commit_that_fails_and_is_repeated_captures_once(session: Session) -> None:
    account = Account.open("Ann")
    account.referrer_id = uuid7()  # nobody: only the COMMIT notices
    session.add(account)
    with pytest.raises(IntegrityError):
        session.commit()
    session.rollback()
    account.referrer_id = None
    account.rename("Anna")
    session.add(account)
    session.commit()
    assert types(session) == ["AccountOpened", "AccountRenamed"]


@pytest.mark.requirement("D5")
def test_a_commit_that_fails_before_the_session_closes_gives_the_events_back(
    session: Session,
) -> None:
    account = Account.open("Ann")
    account.referrer_id = uuid7()
    session.add(account)
    with pytest.raises(IntegrityError):
        session.commit()
    session.close()  # fires no rollback event
    assert list(map(type, account.domain_events)) == [AccountOpened]
    assert types(session) == []


@story
def test_events_raised_by_another_listener_during_the_flush_are_captured(session: Session) -> None:
    clean = saved(session, "Bob")
    session.refresh(clean)

    @event.listens_for(session, "after_flush")
    def tell_bob(session: Session, _: Any) -> None:
        if clean.name == "Bob" and not seen:
            seen.append(clean)
            clean.close()

    seen: list[Account] = []
    session.add(Account.open("Ann"))
    session.commit()
    assert types(session) == ["AccountOpened", "AccountClosed"]


@story
def test_events_raised_by_a_mapper_listener_are_captured(session: Session) -> None:
    def close(_: Any, __: Any, account: Account) -> None:
        account.close()

    event.listen(Account, "before_insert", close)
    try:
        session.add(Account.open("Ann"))
        session.commit()
    finally:
        event.remove(Account, "before_insert", close)
    assert types(session) == ["AccountOpened", "AccountClosed"]


@pytest.mark.parametrize("statement", [update(Account).values(name="x"), delete(Account)])
@story
def test_a_bulk_statement_on_aggregates_warns(session: Session, statement: Any) -> None:
    with pytest.warns(CaptureWarning, match="bulk statement on Account"):
        session.execute(statement)


@story
def test_a_bulk_statement_on_anything_else_is_silent(session: Session) -> None:
    session.execute(update(Note).values(text="x"))


@dataclass(frozen=True, kw_only=True)
class AccountTagged(DomainEvent, aggregate="account"):
    tags: list[str]


@pytest.mark.requirement("D5")
@story
def test_an_event_is_saved_as_it_was_raised(session: Session) -> None:
    """It may hold a list that changes before the flush."""
    account, tags = saved(session), list[str]()
    for tag in ("a", "b"):
        tags.append(tag)
        account.raise_event(AccountTagged(tags=tags))
    tags.clear()
    session.commit()
    assert [record.payload["tags"] for record in records(session)] == [["a"], ["a", "b"]]


@pytest.mark.requirement("D5")
@story
def test_an_event_that_is_captured_again_is_saved_as_it_was_raised(session: Session) -> None:
    account, tags = Account.open("Ann"), ["a"]
    account.raise_event(AccountTagged(tags=tags))
    session.add(account)
    session.flush()
    session.rollback()
    tags.clear()
    session.add(account)
    session.commit()
    assert records(session)[1].payload["tags"] == ["a"]


@dataclass(frozen=True, kw_only=True)
class InvoiceSent(DomainEvent, aggregate="Invoice", key="invoice_id"):
    invoice_id: int | None


@pytest.mark.requirement("D4")
@story
def test_an_id_of_the_database_s_making_is_in_the_key_and_not_in_the_event(
    session: Session,
) -> None:
    invoice = Invoice()
    invoice.raise_event(InvoiceSent(invoice_id=invoice.id))
    session.add(invoice)
    session.commit()
    [record] = records(session)
    assert (record.aggregate_id, record.payload["invoice_id"]) == (str(invoice.id), None)


@story
def test_a_refused_event_stops_the_commit_and_can_be_taken_back(session: Session) -> None:
    account = saved(session)
    with pytest.raises(CaptureError, match=r"AccountRenamed.*`name`.*NUL"):
        account.raise_event(AccountRenamed(account_id=account.id, name="A\0nn"))
    account.raise_event(AccountRenamed(account_id=account.id, name="x" * 2**20))
    with pytest.raises(CaptureError, match=r"AccountRenamed.*payload takes"):
        session.commit()
    assert len(account.domain_events) == 1
    session.rollback()
    account.rename("Anna")
    session.commit()
    assert [record.payload["name"] for record in records(session)] == ["Anna"]


async def test_every_kind_of_session_maker_and_class_can_be_captured(engine: AsyncEngine) -> None:
    class OwnSession(Session):
        pass

    class OwnAsyncSession(AsyncSession):
        pass

    maker = async_sessionmaker(engine)
    scoped = async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 1)
    own = async_sessionmaker(engine, class_=OwnAsyncSession)
    sync_class = async_sessionmaker(engine, sync_session_class=OwnSession)
    outbox.capture(maker)
    outbox.capture(maker)  # twice is once
    outbox.capture(scoped)
    outbox.capture(OwnAsyncSession)
    outbox.capture(OwnSession)
    for sessions in (maker, scoped, own, sync_class):
        async with sessions() as session:
            session.add(Account.open("Ann"))
            await session.commit()
    async with AsyncSession(engine) as session:
        assert len((await session.scalars(select(OutboxRecord))).all()) == 4


@story
def test_a_composite_key_is_an_id_too(session: Session) -> None:
    line = OrderLine(order="a,b", number=1)
    line.raise_event(InvoiceIssued(total=1))
    session.add(line)
    session.commit()
    assert [record.aggregate_id for record in records(session)] == ['["a,b", "1"]']


@story
def test_a_key_that_is_no_id_is_refused_with_the_aggregate_s_name(session: Session) -> None:
    book = DayBook(day=date(2026, 1, 5))
    book.raise_event(InvoiceIssued(total=1))
    session.add(book)
    with pytest.raises(CaptureError, match=r"events of DayBook: .*aggregate's id"):
        session.commit()


@story
def test_an_aggregate_that_was_only_loaded_is_captured(session: Session) -> None:
    account_id = saved(session).id
    session.close()
    with type(session)(session.get_bind()) as fresh:
        fresh.get_one(Account, account_id).close()
        fresh.commit()
    assert types(session) == ["AccountClosed"]


@story
def test_what_no_flush_has_seen_is_captured_before_the_commit(session: Session) -> None:
    account = saved(session)
    session.refresh(account)
    event.listen(session, "before_flush", break_off, once=True)
    session.add(Note(text="x"))
    with pytest.raises(InterruptedError):
        session.flush()
    session.expunge_all()
    session.add(account)
    account.close()  # as far as anybody knows, during the flush that never was
    session.commit()
    assert types(session) == ["AccountClosed"]


def break_off(*_: Any) -> None:
    raise InterruptedError


@story
def test_an_expired_aggregate_gives_its_id_without_a_flush_in_between(session: Session) -> None:
    invoice = Invoice()
    session.add(invoice)
    session.commit()  # and expired
    invoice.account_id = None
    invoice.raise_event(InvoiceIssued(total=1))
    invoice.raise_event(InvoiceIssued(total=2))
    session.commit()
    assert [record.payload["total"] for record in records(session)] == [1, 2]
    assert {record.aggregate_id for record in records(session)} == {str(invoice.id)}


def test_records_are_written_after_everything_else(session: Session) -> None:
    """Their keys are locked then; whoever locks rows first elsewhere must not meet them halfway.

    SQLAlchemy goes by the names of modules: `tests` comes after `postroom`.
    """
    tables: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("INSERT INTO"):
            tables.append(statement.split()[2])

    event.listen(session.get_bind(), "before_cursor_execute", note)
    session.add_all([Account.open("Ann"), Note(text="x")])
    session.flush()
    event.remove(session.get_bind(), "before_cursor_execute", note)
    assert tables == ["accounts", "notes", "outbox"]


@story
def test_bulk_save_objects_warns_too(session: Session) -> None:
    with pytest.warns(CaptureWarning, match=r"AccountOpened.*bulk_save_objects"):
        session.bulk_save_objects([Account.open("Ann")])


@story
def test_an_aggregate_whose_events_somebody_else_collected_is_let_go(session: Session) -> None:
    account = saved(session)
    session.refresh(account)
    account.close()
    account.collect_events()
    session.commit()
    reference = weakref.ref(account)
    del account
    gc.collect()
    assert reference() is None
    assert types(session) == []
