"""Events that listeners raise while a commit is under way: that commit saves them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, event, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.orm.exc import FlushError

from postroom import OutboxRecord
from tests.support.shop import Account, AccountClosed, Note, outbox
from tests.support.story import story

pytestmark = pytest.mark.requirement("D3")

Target = Callable[[Session], Any]
TARGETS: dict[str, Target] = {
    "of the session": lambda session: session,
    "of its class": type,
    "of all sessions": lambda _: Session,
}


@contextmanager
def listening(target: Any, name: str, listener: Callable[..., object]) -> Iterator[None]:
    event.listen(target, name, listener)
    try:
        yield
    finally:
        event.remove(target, name, listener)


def closing(account: Account) -> Callable[..., None]:
    """A listener that closes the account at its first call."""
    waiting = [account]

    def close(*_: object) -> None:
        if waiting:
            waiting.pop().close()

    return close


def saved(session: Session) -> Account:
    """An account that is in the database, with no events left."""
    account = Account.open("Ann")
    account.clear_events()
    session.add(account)
    session.commit()
    return account


def types(session: Session) -> list[str]:
    """The types of the records that are committed: another session sees them."""
    columns = outbox.tables.records.c
    with Session(session.get_bind()) as other:
        return list(other.scalars(select(columns.event_type).order_by(columns.position)))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@story
def test_an_event_of_a_later_before_commit_listener_is_saved(
    session: Session, target: Target
) -> None:
    account = saved(session)
    with listening(target(session), "before_commit", closing(account)):
        session.commit()
    assert types(session) == ["AccountClosed"]


@story
def test_it_is_saved_by_the_release_of_a_savepoint_too(session: Session) -> None:
    account = saved(session)
    with listening(session, "before_commit", closing(account)), session.begin_nested():
        pass
    assert account.domain_events == ()
    session.commit()
    assert types(session) == ["AccountClosed"]


@story
def test_it_is_saved_once_beside_changes_and_in_order(session: Session) -> None:
    account = saved(session)
    account.rename("Anna")
    with listening(session, "before_commit", closing(account)):
        session.commit()
    assert types(session) == ["AccountRenamed", "AccountClosed"]


@story
def test_an_aggregate_that_the_listener_adds_is_saved_with_its_events(session: Session) -> None:
    def add(_: Session) -> None:
        session.add(Account.open("Ann"))

    with listening(session, "before_commit", add):
        session.commit()
    assert types(session) == ["AccountOpened"]


@pytest.mark.parametrize("name", ["before_flush", "after_flush", "after_flush_postexec"])
@story
def test_an_event_of_a_later_listener_to_the_flush_of_a_commit_is_saved(
    session: Session, name: str
) -> None:
    account = saved(session)
    session.add(Note(text="a change"))
    with listening(session, name, closing(account)):
        session.commit()
    assert types(session) == ["AccountClosed"]


@story
def test_an_event_that_a_listener_raises_in_answer_to_a_record_is_saved(session: Session) -> None:
    account = saved(session)
    account.rename("Anna")

    def answer(*_: object) -> None:
        if any(isinstance(each, OutboxRecord) for each in session) and not answered:
            answered.append(True)
            account.close()

    answered: list[bool] = []
    with listening(session, "after_flush_postexec", answer):
        session.commit()
    assert types(session) == ["AccountRenamed", "AccountClosed"]


@story
def test_a_flush_of_nothing_but_an_event_saves_it(session: Session) -> None:
    account = saved(session)
    account.close()
    session.flush()
    assert account.domain_events == ()
    session.commit()
    assert types(session) == ["AccountClosed"]


def test_a_flush_of_a_captured_class_saves_an_event_alone_too(sync_engine: Engine) -> None:
    class Own(Session):
        pass

    outbox.capture(Own)
    with Own(sync_engine) as session:
        account = saved(session)
        account.close()
        session.flush()
        assert account.domain_events == ()
        with listening(Own, "before_commit", closing(account)):
            session.commit()
        assert types(session) == ["AccountClosed", "AccountClosed"]


async def test_a_begin_block_of_an_async_session_saves_it(engine: AsyncEngine) -> None:
    sessions = async_sessionmaker(engine)
    outbox.capture(sessions)
    async with sessions() as session:
        account = Account.open("Ann")
        account.clear_events()
        session.add(account)
        await session.commit()
        with listening(session.sync_session, "before_commit", closing(account)):
            async with session.begin():
                pass
    async with AsyncSession(engine) as session:
        assert await session.run_sync(types) == ["AccountClosed"]


def test_a_two_phase_commit_saves_it_before_it_prepares(
    sqlite_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialect: Any = sqlite_engine.dialect
    accounts: list[Account] = []
    left: list[object] = []
    monkeypatch.setattr(dialect, "do_begin_twophase", lambda *_: None)
    monkeypatch.setattr(
        dialect,
        "do_prepare_twophase",
        lambda *_: left.extend(accounts and accounts[0].domain_events),
    )
    monkeypatch.setattr(
        dialect, "do_commit_twophase", lambda to, *_, **__: dialect.do_commit(to.connection)
    )
    sessions = sessionmaker(sqlite_engine, twophase=True)
    outbox.capture(sessions)
    with sessions() as session:
        accounts.append(saved(session))
        with listening(session, "before_commit", closing(accounts[0])):
            session.commit()
    assert left == []
    with Session(sqlite_engine) as session:
        assert types(session) == ["AccountClosed"]


@story
def test_an_event_that_is_raised_in_a_savepoint_after_its_failure_goes_with_it(
    session: Session,
) -> None:
    account = saved(session)
    closed = AccountClosed(account_id=account.id)
    with session.begin_nested():
        session.add(Note(text=None))
        with pytest.raises(IntegrityError):
            session.flush()
        account.raise_event(closed)
        session.flush()
    account.rename("Anna")
    session.commit()
    assert types(session) == ["AccountRenamed"]


@story
def test_listeners_that_raise_events_without_end_are_an_error(session: Session) -> None:
    account = saved(session)
    account.rename("Anna")
    endless = listening(session, "after_flush", lambda *_: account.close())
    with endless, pytest.raises(FlushError, match=r"Over 100 .*flushes"):
        session.commit()
    session.rollback()
    session.commit()
    assert types(session) == []


@story
def test_a_rollback_after_a_flush_that_failed_captures_nothing(session: Session) -> None:
    account = saved(session)
    session.add(Note(text=None))
    with pytest.raises(IntegrityError):
        session.flush()
    with listening(session, "after_rollback", closing(account)):
        session.rollback()
    session.commit()
    assert types(session) == []
