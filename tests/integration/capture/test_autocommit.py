"""A session on AUTOCOMMIT is refused: a rollback would leave a record without its data."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

from postroom import CaptureError, EventBus, OutboxRecord, UntypedEvent
from tests.support.shop import Account, outbox

pytestmark = pytest.mark.requirement("D3")

AUTOCOMMIT: Any = {"isolation_level": "AUTOCOMMIT"}
ADVICE = r"AUTOCOMMIT.*engine\.execution_options\(isolation_level='(.*)'\)"
Capture = Callable[[Session], None]


def event() -> UntypedEvent:
    return UntypedEvent(event_type="account.seen", payload={})


def dispatch(session: Session) -> None:
    outbox.dispatcher(session).dispatch_sync([event()])


def flush_bus(session: Session) -> None:
    bus = EventBus()
    bus.emit(event())
    outbox.middleware().flush_sync(session, bus)


def save(session: Session) -> None:
    outbox.save_sync(session, [event()])


def open_account(session: Session) -> None:
    session.add(Account.open("Ann"))
    session.flush()


WAYS: list[Capture] = [dispatch, flush_bus, save, open_account]


def count(engine: Engine) -> tuple[int, int]:
    """How many records there are, and how many accounts."""
    counts = [select(func.count()).select_from(each) for each in (OutboxRecord, Account)]
    with Session(engine) as session:
        records, accounts = (session.scalar(each) or 0 for each in counts)
    return records, accounts


def capturing(engine: Any) -> Session:
    sessions = sessionmaker(engine)
    outbox.capture(sessions)
    return sessions()


@pytest.mark.parametrize("way", WAYS)
def test_an_engine_that_was_created_so_is_refused(sync_database: Engine, way: Capture) -> None:
    engine = create_engine(sync_database.url, isolation_level="AUTOCOMMIT")
    with capturing(engine) as session, pytest.raises(CaptureError, match=ADVICE):
        way(session)
    engine.dispose()
    assert count(sync_database) == (0, 0)


@pytest.mark.parametrize("way", WAYS)
def test_an_engine_with_the_execution_option_is_refused(
    sync_database: Engine, way: Capture
) -> None:
    engine = sync_database.execution_options(**AUTOCOMMIT)
    with capturing(engine) as session, pytest.raises(CaptureError, match=ADVICE):
        way(session)
    assert count(sync_database) == (0, 0)


@pytest.mark.parametrize("way", WAYS)
def test_a_connection_with_the_option_is_refused(sync_database: Engine, way: Capture) -> None:
    with (
        sync_database.connect().execution_options(**AUTOCOMMIT) as connection,
        capturing(connection) as session,
        pytest.raises(CaptureError, match=ADVICE),
    ):
        way(session)
    assert count(sync_database) == (0, 0)


@pytest.mark.parametrize("way", WAYS)
def test_a_session_that_has_begun_with_the_option_is_refused(
    sync_database: Engine, way: Capture
) -> None:
    with capturing(sync_database) as session:
        session.connection(execution_options=AUTOCOMMIT)
        with pytest.raises(CaptureError, match=ADVICE):
            way(session)
    assert count(sync_database) == (0, 0)


def test_a_session_with_the_option_is_refused(sync_database: Engine) -> None:
    if not hasattr(Session(), "execution_options"):
        return  # SQLAlchemy 2.0
    session = Session(sync_database, execution_options=AUTOCOMMIT)
    with pytest.raises(CaptureError, match=ADVICE):
        dispatch(session)


@pytest.mark.parametrize("way", WAYS)
def test_a_session_that_has_begun_a_transaction_on_such_an_engine_is_not_refused(
    sync_database: Engine, way: Capture
) -> None:
    level = "READ COMMITTED" if sync_database.dialect.name == "postgresql" else "SERIALIZABLE"
    with capturing(sync_database.execution_options(**AUTOCOMMIT)) as session:
        session.connection(execution_options={"isolation_level": level})
        way(session)
        session.rollback()
    assert count(sync_database) == (0, 0)


def test_one_of_several_databases_with_the_option_is_refused_for_what_goes_there(
    sync_database: Engine,
) -> None:
    autocommit = sync_database.execution_options(**AUTOCOMMIT)
    with Session(autocommit, binds={OutboxRecord: sync_database}) as session:
        dispatch(session)
    session = Session(sync_database, binds={OutboxRecord: autocommit})
    with pytest.raises(CaptureError, match=ADVICE):
        dispatch(session)


@pytest.mark.parametrize("way", WAYS)
def test_a_driver_that_was_told_so_is_refused_at_the_insert(
    sync_engine: Engine, way: Capture
) -> None:
    engine = create_engine(sync_engine.url, connect_args={"autocommit": True})

    def capture_and_commit(session: Session) -> None:
        way(session)
        session.commit()

    with capturing(engine) as session, pytest.raises(CaptureError, match=ADVICE):
        capture_and_commit(session)
    engine.dispose()
    assert count(sync_engine)[0] == 0


def test_an_event_that_was_refused_stays_with_its_aggregate(sync_database: Engine) -> None:
    engine = sync_database.execution_options(**AUTOCOMMIT)
    account = Account.open("Ann")
    with capturing(engine) as session:
        session.add(account)
        with pytest.raises(CaptureError):
            session.commit()
        session.rollback()
    assert len(account.domain_events) == 1
    with capturing(sync_database) as session:
        session.add(account)
        session.commit()
    assert count(sync_database) == (1, 1)


@pytest.mark.parametrize("way", WAYS)
def test_the_advice_works_and_events_alone_are_what_is_refused(
    sync_database: Engine, way: Capture
) -> None:
    engine = create_engine(sync_database.url, isolation_level="AUTOCOMMIT")
    with capturing(engine) as session:
        account = Account.open("Bob")
        account.clear_events()
        session.add(account)
        session.commit()
        with pytest.raises(CaptureError, match=ADVICE) as refused:
            way(session)
    level = str(refused.value).split("'")[1]
    with capturing(engine.execution_options(isolation_level=level)) as session:
        way(session)
        session.commit()
        way(session)
        session.rollback()
    engine.dispose()
    assert count(sync_database)[0] == 1


async def test_an_async_session_is_refused(engine: AsyncEngine, sync_engine: Engine) -> None:
    autocommit = engine.execution_options(**AUTOCOMMIT)
    async with AsyncSession(autocommit) as session:
        with pytest.raises(CaptureError, match=ADVICE):
            await outbox.dispatcher(session).dispatch([event()])
        with pytest.raises(CaptureError, match=ADVICE):
            await outbox.save(session, [event()])
    sessions = async_sessionmaker(autocommit)
    outbox.capture(sessions)
    async with sessions() as session:
        session.add(Account.open("Ann"))
        with pytest.raises(CaptureError, match=ADVICE):
            await session.commit()
    async with AsyncSession(engine) as session:
        await session.connection(execution_options=AUTOCOMMIT)
        with pytest.raises(CaptureError, match=ADVICE):
            await outbox.dispatcher(session).dispatch([event()])
    assert count(sync_engine) == (0, 0)
