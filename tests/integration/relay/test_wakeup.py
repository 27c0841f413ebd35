"""Who is told of a commit, when, and from where."""

import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Set
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, MetaData, func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session

from postroom import Outbox, OutboxRecord, UntypedEvent
from postroom.identity import uuid7
from tests.support.shop import Account, Note, outbox
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.no_cover  # others cover the same, for less time

MOST_COMMITS = 1000
"""Of a thread that commits while something else happens."""
Play = Callable[[Callable[[Session], None]], Awaitable[None]]


class WakeRecord(OutboxRecord):
    pass


second = Outbox(MetaData(), table="woken", record=WakeRecord)


class Calls:
    """Counts how often it is called, and with which partitions."""

    def __init__(self) -> None:
        self.count = 0
        self.partitions: set[int] = set()

    def __call__(self, partitions: Set[int]) -> None:
        self.count += 1
        self.partitions |= partitions


@pytest.fixture
def calls() -> Iterator[Calls]:
    calls = Calls()
    unsubscribe = outbox.on_commit(calls)
    yield calls
    unsubscribe()


def save(session: Session, count: int = 1, into: Outbox = outbox) -> None:
    events = [UntypedEvent(event_type="x", payload={}, aggregate_id=n) for n in range(count)]
    into.dispatcher(session).dispatch_sync(events)


async def test_the_partitions_of_the_records_are_told(play: Play, calls: Calls) -> None:
    told: list[set[int]] = []

    def story(session: Session) -> None:
        save(session, 3)
        with session.begin_nested():
            save(session, 5)
        session.commit()
        told.append({record.partition for record in session.scalars(select(OutboxRecord))})

    await play(story)
    assert [calls.partitions] == told


async def test_a_commit_of_records_calls_once(play: Play, calls: Calls) -> None:
    def story(session: Session) -> None:
        save(session, 3)
        assert calls.count == 0
        session.flush()
        save(session)
        session.flush()
        assert calls.count == 0
        session.commit()
        assert calls.count == 1
        save(session)
        session.commit()
        assert calls.count == 2

    await play(story)


async def test_the_records_are_there_when_it_is_called(sync_engine: Engine) -> None:
    seen: list[int | None] = []
    query = select(func.count()).select_from(outbox.tables.records)

    def look(_: Set[int]) -> None:
        with sync_engine.connect() as connection:
            seen.append(connection.scalar(query))

    unsubscribe = outbox.on_commit(look)
    with Session(sync_engine) as session:
        save(session, 2)
        session.commit()
    unsubscribe()
    assert seen == [2]


async def test_captured_events_call_too(play: Play, calls: Calls) -> None:
    def story(session: Session) -> None:
        session.add(Account.open("Ann"))
        session.commit()
        assert calls.count == 1

    await play(story)


async def test_a_commit_without_records_calls_nobody(play: Play, calls: Calls) -> None:
    def story(session: Session) -> None:
        session.add(Note(text="x"))
        session.commit()
        session.commit()
        assert session.scalars(select(OutboxRecord)).all() == []
        session.commit()
        assert calls.count == 0

    await play(story)


async def test_a_rollback_calls_nobody_then_or_later(play: Play, calls: Calls) -> None:
    def story(session: Session) -> None:
        save(session)
        session.flush()
        session.rollback()
        session.add(Note(text="x"))
        session.commit()
        save(session)
        session.flush()
        session.close()
        session.add(Note(text="x"))
        session.commit()
        assert calls.count == 0

    await play(story)


async def test_the_release_of_a_savepoint_calls_nobody_and_the_commit_does(
    play: Play, calls: Calls
) -> None:
    def story(session: Session) -> None:
        with session.begin_nested():
            with session.begin_nested():
                save(session)
            assert calls.count == 0
        assert calls.count == 0
        session.commit()
        assert calls.count == 1

    await play(story)


async def test_a_savepoint_that_is_released_and_then_rolled_back_with_the_rest_calls_nobody(
    play: Play, calls: Calls
) -> None:
    def story(session: Session) -> None:
        with session.begin_nested():
            save(session)
        session.rollback()
        session.add(Note(text="x"))
        session.commit()
        assert calls.count == 0

    await play(story)


async def test_a_savepoint_that_is_rolled_back_calls_nobody(play: Play, calls: Calls) -> None:
    def story(session: Session) -> None:
        savepoint = session.begin_nested()
        save(session)
        session.flush()
        savepoint.rollback()
        session.add(Note(text="x"))
        session.commit()
        assert calls.count == 0

    await play(story)


async def test_a_commit_releases_open_savepoints_and_calls_once(play: Play, calls: Calls) -> None:
    def story(session: Session) -> None:
        save(session)
        session.begin_nested()
        session.begin_nested()
        save(session)
        session.commit()
        assert calls.count == 1

    await play(story)


async def test_a_commit_that_fails_calls_nobody(sync_engine: Engine, calls: Calls) -> None:
    with Session(sync_engine) as session:
        account = Account.open("Ann")
        account.clear_events()
        account.referrer_id = uuid7()  # nobody: refused by COMMIT
        session.add(account)
        save(session)
        with pytest.raises(IntegrityError):
            session.commit()
        session.rollback()
        session.add(Note(text="x"))
        session.commit()
        assert calls.count == 0
        save(session)
        session.commit()
        assert calls.count == 1


async def test_a_commit_in_an_async_session_calls(engine: AsyncEngine, calls: Calls) -> None:
    async with AsyncSession(engine) as session, session.begin():
        await outbox.dispatcher(session).dispatch([UntypedEvent(event_type="x", payload={})])
    assert calls.count == 1


def test_a_two_phase_commit_calls_when_it_is_done(
    sqlite_engine: Engine, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PostgreSQL has to be configured for it. SQLite has no second phase to be missed.
    dialect: Any = sqlite_engine.dialect
    monkeypatch.setattr(dialect, "do_begin_twophase", lambda *_: None)
    monkeypatch.setattr(dialect, "do_prepare_twophase", lambda *_: None)
    monkeypatch.setattr(
        dialect, "do_commit_twophase", lambda to, *_, **__: dialect.do_commit(to.connection)
    )
    with Session(sqlite_engine, twophase=True) as session:
        save(session)
        session.prepare()
        assert calls.count == 0
        session.commit()
        assert calls.count == 1
    with Session(sqlite_engine) as session:
        assert len(session.scalars(select(OutboxRecord)).all()) == 1


@pytest.mark.parametrize("mode", ["create_savepoint", "control_fully", "rollback_only"])
def test_a_session_that_only_joined_a_transaction_has_not_committed_it(
    sync_engine: Engine, calls: Calls, mode: Any
) -> None:
    with sync_engine.connect() as connection, connection.begin():
        with Session(connection, join_transaction_mode=mode) as session:
            save(session)
            session.commit()
        # One that takes full control commits the transaction that it joined.
        assert calls.count == (mode == "control_fully")


async def test_rows_that_the_orm_does_not_insert_go_unnoticed(play: Play, calls: Calls) -> None:
    def story(session: Session) -> None:
        row = {"id": uuid7(), "event_type": "x", "partition": 0, "payload": {}}
        session.execute(insert(outbox.tables.records), row | {"occurred_at": datetime.now(UTC)})
        session.commit()
        assert calls.count == 0

    await play(story)


async def test_who_has_unsubscribed_is_not_called_and_the_others_are(
    play: Play, calls: Calls
) -> None:
    other = Calls()
    unsubscribe = outbox.on_commit(other)

    def story(session: Session) -> None:
        save(session)
        session.flush()
        unsubscribe()
        unsubscribe()
        session.commit()
        assert (other.count, calls.count) == (0, 1)

    await play(story)


async def test_one_that_subscribes_twice_is_called_twice(play: Play, calls: Calls) -> None:
    unsubscribe = outbox.on_commit(calls)

    def story(session: Session) -> None:
        save(session)
        session.commit()
        assert calls.count == 2
        unsubscribe()
        save(session)
        session.commit()
        assert calls.count == 3

    await play(story)


async def test_when_nobody_subscribes_no_session_is_listened_to(sqlite_engine: Engine) -> None:
    with Session(sqlite_engine) as session:
        save(session)
        session.commit()
        assert len(session.dispatch.after_commit) == 0


async def test_a_session_is_listened_to_once(sqlite_engine: Engine, calls: Calls) -> None:
    with Session(sqlite_engine) as session:
        for _ in range(3):
            save(session, 2)
            session.commit()
        assert len(session.dispatch.after_commit) == 1
    assert calls.count == 3


async def test_what_a_callback_raises_is_logged_and_harms_nobody(
    play: Play, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Set[int]) -> None:
        raise RuntimeError("broken bell")

    unsubscribe = [outbox.on_commit(fail), outbox.on_commit(after := Calls())]

    def story(session: Session) -> None:
        save(session)
        session.commit()
        assert (calls.count, after.count) == (1, 1)
        assert len(session.scalars(select(OutboxRecord)).all()) == 1

    with caplog.at_level(logging.ERROR, "postroom.wakeup.commits"):
        await play(story)
    for each in unsubscribe:
        each()
    [logged] = caplog.records
    assert logged.exc_info is not None
    assert "broken bell" in str(logged.exc_info[1])


def test_it_is_called_in_the_thread_that_committed(sync_engine: Engine) -> None:
    called: list[threading.Thread] = []
    unsubscribe = outbox.on_commit(lambda _: called.append(threading.current_thread()))

    def work() -> None:
        for _ in range(5):
            with Session(sync_engine) as session:
                save(session)
                session.commit()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    unsubscribe()
    assert sorted(map(id, called)) == sorted(map(id, threads * 5))


def test_subscribing_while_others_commit_breaks_no_commit(sync_engine: Engine) -> None:
    stop, failures = threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            for _ in range(MOST_COMMITS):
                if stop.is_set():
                    break
                with Session(sync_engine) as session:
                    save(session)
                    session.commit()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(2000):
        outbox.on_commit(Calls())()
    stop.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == []


def test_each_outbox_has_commits_of_its_own(sync_engine: Engine, calls: Calls) -> None:
    with sync_engine.begin() as connection:
        second.create_tables(connection)
    unsubscribe = second.on_commit(other := Calls())
    with Session(sync_engine) as session:
        save(session, into=second)
        session.commit()
        assert (calls.count, other.count) == (0, 1)
        save(session)
        session.commit()
        assert (calls.count, other.count) == (1, 1)
        save(session)
        save(session, into=second)
        session.commit()
        assert (calls.count, other.count) == (2, 2)
    unsubscribe()
    second.metadata.drop_all(sync_engine)
