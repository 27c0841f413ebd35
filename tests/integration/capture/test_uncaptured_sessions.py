"""A session that nobody captured, beside captured ones: it warns of the events that it leaves."""

import gc
from collections.abc import Callable, Iterator
from weakref import ref

import pytest
from sqlalchemy import Engine, event, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session, sessionmaker

from postroom import CaptureError, CaptureWarning, ConfigurationError, EventBus
from tests.support.shop import Account, Note, outbox

pytestmark = pytest.mark.requirement("D3")

WARNING = r"Account has events .*\(AccountOpened\): this session is not captured"


@pytest.fixture(autouse=True)
def captured(sqlite_engine: Engine) -> Iterator[sessionmaker[Session]]:
    """Sessions of this process that are captured."""
    sessions = sessionmaker(sqlite_engine)
    outbox.capture(sessions)
    yield sessions
    gc.collect()
    gc.collect()  # a class of sessions, and then what refers to it


@pytest.fixture
def session(sqlite_engine: Engine) -> Iterator[Session]:
    """A session that nobody captured."""
    with Session(sqlite_engine) as session:
        yield session


def saved(session: Session) -> Account:
    account = Account.open("Ann")
    account.clear_events()
    session.add(account)
    session.commit()
    return account


def rows(engine: Engine) -> tuple[int, int]:
    """How many accounts are committed, and how many records."""
    with Session(engine) as session:
        found = [session.scalars(select(each)).all() for each in (Account, outbox.record)]
    return len(found[0]), len(found[1])


def add(session: Session) -> None:
    session.add(Account.open("Ann"))


def add_and_flush(session: Session) -> None:
    add(session)
    session.flush()
    gc.collect()  # the session alone would not keep it


def add_in_a_savepoint(session: Session) -> None:
    with session.begin_nested():
        add(session)


@pytest.mark.parametrize("save", [add, add_and_flush, add_in_a_savepoint])
def test_it_warns_at_its_commit(session: Session, save: Callable[[Session], None]) -> None:
    save(session)
    with pytest.warns(CaptureWarning, match=WARNING) as caught:
        session.commit()
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_its_events_stay_with_their_aggregate(sqlite_engine: Engine, session: Session) -> None:
    account = Account.open("Ann")
    session.add(account)
    with pytest.warns(CaptureWarning, match=WARNING):
        session.commit()
    assert len(account.domain_events) == 1
    assert rows(sqlite_engine) == (1, 0)


def test_a_begin_block_warns_too(sqlite_engine: Engine) -> None:
    with (
        pytest.warns(CaptureWarning, match=WARNING) as caught,
        sessionmaker(sqlite_engine).begin() as session,
    ):
        add(session)
    assert caught[0].filename == __file__


def test_so_does_an_event_of_a_loaded_aggregate_that_nobody_else_holds(session: Session) -> None:
    session.expire(saved(session))

    def touch() -> None:
        for account in session.scalars(select(Account)):
            account.close()

    touch()
    gc.collect()
    with pytest.warns(CaptureWarning, match=r"AccountClosed"):
        session.commit()


async def test_so_does_an_async_session(engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as session:
        session.add(Account.open("Ann"))
        with pytest.warns(CaptureWarning, match=WARNING):
            await session.commit()
    with pytest.warns(CaptureWarning, match=WARNING):
        async with AsyncSession(engine) as session, session.begin():
            session.add(Account.open("Bob"))


@pytest.mark.parametrize("name", ["before_commit", "before_flush"])
def test_an_event_that_a_listener_of_the_commit_raises_is_a_warning_at_the_next_commit(
    session: Session, name: str
) -> None:
    account = saved(session)
    session.add(Note(text="x"))
    event.listen(session, name, lambda *_: account.close(), once=True)
    session.commit()
    with pytest.warns(CaptureWarning, match=r"AccountClosed"):
        session.commit()


def test_it_warns_once_and_only_of_what_is_left(session: Session) -> None:
    add(session)
    with pytest.warns(CaptureWarning):
        session.commit()
    session.add(Note(text="x"))
    session.commit()


def collect_and_dispatch(session: Session, account: Account) -> None:
    session.flush()
    outbox.dispatcher(session).dispatch_sync(account.collect_events())


def dispatch_and_leave(session: Session, account: Account) -> None:
    with session.begin_nested():
        outbox.dispatcher(session).dispatch_sync(account.domain_events)


def emit(session: Session, account: Account) -> None:
    bus = EventBus()
    for each in account.collect_events():
        bus.emit(each)
    outbox.middleware().flush_sync(session, bus)


def clear(session: Session, account: Account) -> None:
    account.clear_events()


@pytest.mark.parametrize("use", [collect_and_dispatch, dispatch_and_leave, emit, clear])
def test_events_that_are_saved_in_another_way_or_dropped_are_no_warning(
    session: Session, use: Callable[[Session, Account], None]
) -> None:
    account = Account.open("Ann")
    session.add(account)
    use(session, account)
    session.commit()


def test_what_is_rolled_back_expunged_or_closed_is_no_warning(session: Session) -> None:
    account = saved(session)
    account.close()
    add(session)
    session.rollback()
    account.name = "Anna"
    session.commit()
    gone = Account.open("Bob")
    session.add(gone)
    session.expunge(gone)
    session.commit()
    add(session)
    session.close()
    session.commit()


def test_what_a_session_that_was_closed_had_is_freed_when_it_is_used_again(
    session: Session,
) -> None:
    """A worker may use one session for ever, and never commit."""
    account = Account.open("Ann")
    session.add(account)
    session.close()
    left = ref(account)
    del account
    session.scalars(select(Note)).all()
    gc.collect()
    assert left() is None


def test_it_can_be_an_error(sqlite_engine: Engine, session: Session) -> None:
    strict = sessionmaker(sqlite_engine)
    outbox.capture(strict, uncaptured="error")
    add(session)
    for _ in range(2):
        with pytest.raises(CaptureError, match=WARNING):
            session.commit()
    session.rollback()
    session.add(Note(text="x"))
    session.commit()
    assert rows(sqlite_engine) == (0, 0)


def test_anything_else_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"uncaptured is 'raise'.*'error'"):
        outbox.capture(sessionmaker(), uncaptured="raise")  # type: ignore[arg-type]


def test_the_remedies_work(
    sqlite_engine: Engine, session: Session, captured: sessionmaker[Session]
) -> None:
    add(session)
    with pytest.warns(CaptureWarning, match=r"outbox\.capture\(.*collect_events\(\)"):
        session.commit()
    with captured.begin() as own:
        add(own)
    second = sessionmaker(sqlite_engine)
    outbox.capture(second)
    with second.begin() as own:
        add(own)
    assert rows(sqlite_engine) == (3, 2)
