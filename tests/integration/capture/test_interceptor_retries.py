"""The interceptor after failures and copies: what is tried again is captured once."""

import copy
import pickle
from typing import Any

import pytest
from sqlalchemy import Engine, event, select
from sqlalchemy.orm import Session

from postroom import CaptureError, OutboxRecord
from postroom.identity import uuid7
from tests.support.shop import Account, AccountClosed, Note, outbox
from tests.support.story import story

pytestmark = [pytest.mark.requirement("D5"), pytest.mark.no_cover]


def types(session: Session) -> list[str]:
    records = select(OutboxRecord).order_by(outbox.tables.records.c.position)
    return [record.event_type for record in session.scalars(records)]


def saved(session: Session, name: str = "Ann") -> Account:
    account = Account.open(name)
    account.clear_events()
    session.add(account)
    session.commit()
    session.refresh(account)
    return account


def break_off(*_: Any) -> None:
    raise InterruptedError


@story
def test_an_event_before_a_savepoint_survives_a_flush_that_broke_off(session: Session) -> None:
    account = saved(session)
    event.listen(session, "before_flush", break_off, once=True)
    note = Note(text="x")
    session.add(note)
    with pytest.raises(InterruptedError):
        session.flush()
    session.expunge(note)
    account.close()
    savepoint = session.begin_nested()
    account.name = "Anna"
    session.flush()
    savepoint.rollback()
    session.commit()
    assert types(session) == ["AccountClosed"]


@story
def test_a_new_aggregate_that_raised_in_a_savepoint_can_be_added_again(session: Session) -> None:
    account = Account.open("Ann")
    session.add(account)
    savepoint = session.begin_nested()
    account.close()
    savepoint.rollback()
    session.rollback()
    session.add(account)
    session.commit()
    assert types(session) == ["AccountOpened"]
    assert session.scalars(select(Account.name)).all() == ["Ann"]


@story
def test_a_new_aggregate_that_raised_two_savepoints_deep_can_be_added_again(
    session: Session,
) -> None:
    account = Account.open("Ann")
    outer = session.begin_nested()
    session.add(account)
    inner = session.begin_nested()
    account.close()
    session.flush()
    inner.rollback()
    outer.rollback()
    session.add(account)
    account.close()
    session.commit()
    assert types(session) == ["AccountOpened", "AccountClosed"]


@story
def test_an_event_of_a_savepoint_that_was_rolled_back_is_not_told(session: Session) -> None:
    """Also if it changed no column, so that SQLAlchemy has nothing to set back."""

    captured, uncaptured = saved(session, "Ann"), saved(session, "Bob")
    session.refresh(captured)
    savepoint = session.begin_nested()
    captured.close()
    session.flush()
    uncaptured.close()
    savepoint.rollback()
    session.commit()
    assert types(session) == []


@story
def test_raising_an_event_does_not_change_what_a_rollback_sets_back(session: Session) -> None:
    account = saved(session)
    savepoint = session.begin_nested()
    account.close()
    session.flush()
    assert not session.is_modified(account)
    savepoint.rollback()
    assert "name" in account.__dict__, "it was expired"


@story
def test_an_event_raised_outside_a_transaction_is_rolled_back_too(session: Session) -> None:
    account = saved(session)
    session.expire_on_commit = False
    session.commit()
    account.close()
    session.rollback()
    session.commit()
    assert types(session) == []


def test_a_bare_class_of_sessions_keeps_the_events_before_a_savepoint(sync_engine: Engine) -> None:
    class Bare(Session):
        pass

    outbox.capture(Bare)
    with Bare(sync_engine) as session:
        account = saved(session)
        account.close()
        savepoint = session.begin_nested()
        account.rename("Anna")
        session.flush()
        savepoint.rollback()
        session.commit()
        assert types(session) == ["AccountClosed"]


@story
def test_an_aggregate_in_another_session_keeps_its_events(session: Session) -> None:
    account = saved(session)
    account.close()
    with pytest.warns(UserWarning, match="AccountClosed"):
        session.expunge(account)
    with type(session)(session.get_bind()) as other:
        other.add(account)
        other.expire(account)
        session.rollback()
        assert list(map(type, account.domain_events)) == [AccountClosed]
        other.commit()
    assert types(session) == ["AccountClosed"]


@story
def test_an_aggregate_from_another_process_is_captured_beside_others(session: Session) -> None:
    first, second = Account.open("Ann"), Account.open("Bob")
    first.rename("Anna")
    data = pickle.dumps([first, second])
    for _ in range(2):  # as if the numbers of two processes met
        session.add_all(pickle.loads(data))  # noqa: S301 - our own
        session.flush()
        assert types(session) == ["AccountOpened", "AccountRenamed", "AccountOpened"]
        session.rollback()
    session.add_all([*pickle.loads(data), Account.open("Cid")])  # noqa: S301
    session.commit()
    assert types(session) == [
        "AccountOpened",
        "AccountRenamed",
        "AccountOpened",
        "AccountOpened",
    ]


@story
def test_a_deep_copy_is_captured_like_any_other_aggregate(session: Session) -> None:
    account = Account.open("Ann")
    account.rename("Anna")
    copied = copy.deepcopy(account)
    account.clear_events()
    session.add_all([Account.open("Bob"), copied])
    session.commit()
    assert types(session) == ["AccountOpened", "AccountRenamed", "AccountOpened"]


@story
def test_an_event_that_two_aggregates_raise_is_refused(session: Session) -> None:
    account = Account.open("Ann")
    copied = copy.deepcopy(account)
    copied.id = uuid7()
    session.add_all([account, copied])
    with pytest.raises(CaptureError, match=r"AccountOpened.*already"):
        session.commit()
    session.rollback()
    copied.clear_events()
    session.add_all([account, copied])
    session.commit()
    assert types(session) == ["AccountOpened"]


@story
def test_an_event_that_is_dispatched_and_captured_is_refused(session: Session) -> None:
    account = Account.open("Ann")
    session.add(account)
    outbox.dispatcher(session).dispatch_sync(account.domain_events)
    with pytest.raises(CaptureError, match=r"AccountOpened.*in one way"):
        session.commit()


@story
def test_an_event_that_was_captured_is_not_raised_again(session: Session) -> None:
    account = Account.open("Ann")
    [opened] = account.domain_events
    session.add(account)
    session.flush()
    account.raise_event(opened)
    with pytest.raises(CaptureError, match=r"AccountOpened.*already"):
        session.commit()
