"""Handlers on real databases: none is repeated for another's sake, and an effect happens once."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dishka import Provider, Scope, make_async_container
from sqlalchemy import Engine, NullPool, create_engine, event, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from postroom.errors import OutageError, UndeliverableError
from postroom.publishers.base import DELIVERED, Refused
from postroom.record import ClaimedRecord
from tests.support.note_handlers import (
    Diary,
    MainAsyncSession,
    WriteNote,
    container_of_handlers,
    notes,
    one,
    publisher_of_handlers,
)
from tests.support.program import run_program
from tests.support.shop import Account, AccountOpened, Note, outbox
from tests.support.waiting import PATIENCE, eventually

REPOSITORY = Path(__file__).parents[3]


class First(WriteNote):
    pass


class Second(WriteNote):
    pass


class FailsOnce(WriteNote):
    """Fails before it has done anything, the first time."""

    error: Exception = RuntimeError("not yet")

    async def handle(self, event: AccountOpened) -> None:
        if type(self).__name__ not in self.diary.ran:
            self.diary.ran.append(type(self).__name__)
            raise self.error
        await super().handle(event)


class OutOnce(FailsOnce):
    error = OutageError("no line")


class GivesUp(FailsOnce):
    error = UndeliverableError("never")


async def receipts(engine: AsyncEngine) -> set[tuple[str, str]]:
    inbox = outbox.tables.inbox
    async with engine.connect() as connection:
        rows = await connection.execute(select(inbox.c.message_id, inbox.c.consumer))
        return {(row.message_id, row.consumer) for row in rows}


@pytest.mark.requirement("A11")
async def test_each_handler_has_a_session_of_its_own(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord
) -> None:
    publisher = await publisher_of_handlers(database, diary, First, Second)
    assert await one(publisher, record) == DELIVERED
    assert await notes(database) == ["First a@b.com", "Second a@b.com"]
    first, second = diary.sessions
    assert first is not second


@pytest.mark.parametrize("session", [None, MainAsyncSession])
async def test_a_handler_that_succeeded_is_not_run_again_for_its_siblings_sake(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord, session: Any
) -> None:
    publisher = await publisher_of_handlers(database, diary, First, FailsOnce, session=session)
    assert await one(publisher, record) == Refused("FailsOnce: RuntimeError: not yet")
    # Another process has nothing but the database to go by.
    publisher = await publisher_of_handlers(database, diary, First, FailsOnce, session=session)
    assert await one(publisher, record) == DELIVERED
    assert sorted(diary.ran) == ["FailsOnce", "FailsOnce", "First"]
    assert await notes(database) == ["FailsOnce a@b.com", "First a@b.com"]
    assert await receipts(database) == {(str(record.id), "First"), (str(record.id), "FailsOnce")}


@pytest.mark.parametrize("session", [None, MainAsyncSession])
async def test_an_outage_waits_for_the_others_and_what_they_did_is_kept(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord, session: Any
) -> None:
    handlers = (OutOnce, FailsOnce, First)
    publisher = await publisher_of_handlers(database, diary, *handlers, session=session)
    with pytest.raises(OutageError, match="OutOnce: no line"):
        await one(publisher, record)
    assert await notes(database) == ["First a@b.com"]
    assert await one(publisher, record) == DELIVERED
    assert diary.ran.count("First") == 1


async def test_a_record_fails_for_good_only_when_no_handler_may_still_succeed(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord
) -> None:
    publisher = await publisher_of_handlers(database, diary, GivesUp, FailsOnce)
    outcome = await one(publisher, record)
    assert isinstance(outcome, Refused)
    assert not outcome.permanent
    assert "GivesUp: UndeliverableError: never; FailsOnce: RuntimeError" in outcome.reason


class Blocked(WriteNote):
    """Waits until it is cancelled, or for ever."""

    async def handle(self, event: AccountOpened) -> None:
        self.diary.afterwards("Blocked")
        await asyncio.Event().wait()


async def test_what_is_done_when_a_delivery_is_cancelled_is_not_done_again(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord
) -> None:
    publisher = await publisher_of_handlers(database, diary, First, Blocked)
    delivery = asyncio.create_task(publisher.publish([record]))
    await eventually(lambda: receipts(database))
    assert not delivery.done()
    delivery.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivery
    assert await receipts(database) == {(str(record.id), "First")}


async def test_a_handler_that_failed_after_its_commit_is_run_again(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord
) -> None:
    def fail(name: str) -> None:
        diary.afterwards = lambda name: None
        raise RuntimeError("the mail cannot be sent")

    diary.afterwards = fail
    publisher = await publisher_of_handlers(database, diary, WriteNote, session=MainAsyncSession)
    assert isinstance(await one(publisher, record), Refused)
    assert await one(publisher, record) == DELIVERED
    assert await one(publisher, record) == DELIVERED
    assert diary.ran == ["WriteNote"] * 2


@pytest.mark.requirement("E3")
async def test_an_effect_happens_once_although_the_process_was_killed_after_the_commit(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord
) -> None:
    url = database.url.render_as_string(hide_password=False)
    killed = ["-m", "tests.integration.handlers.killed_handler", url, str(record.id)]
    done = run_program(killed, folder=REPOSITORY, environment=os.environ)
    assert done.code == -signal.SIGKILL, done.err
    assert await notes(database) == ["WriteNote a@b.com"]
    publisher = await publisher_of_handlers(database, diary, WriteNote, session=MainAsyncSession)
    assert await one(publisher, record) == DELIVERED
    assert await notes(database) == ["WriteNote a@b.com"]


class FailsInside(WriteNote):
    async def handle(self, event: AccountOpened) -> None:
        async with self.session.begin():
            self.session.add(Note(text="never"))
            await self.session.flush()
            raise RuntimeError("inside")


@pytest.mark.requirement("E3")
async def test_a_transaction_that_is_rolled_back_takes_its_receipt_along(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord
) -> None:
    publisher = await publisher_of_handlers(database, diary, FailsInside, session=MainAsyncSession)
    assert await one(publisher, record) == Refused("FailsInside: RuntimeError: inside")
    assert await notes(database) == []
    assert await receipts(database) == set()


class Reads(WriteNote):
    """Reads, and never commits."""

    async def handle(self, event: AccountOpened) -> None:
        self.diary.ran.append("Reads")
        await self.session.scalars(select(Note))


class DoesNothing(WriteNote):
    async def handle(self, event: AccountOpened) -> None:
        self.diary.ran.append("DoesNothing")


@pytest.mark.parametrize("handler", [Reads, DoesNothing])
async def test_a_handler_that_commits_nothing_is_noted_afterwards(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord, handler: type[WriteNote]
) -> None:
    publisher = await publisher_of_handlers(database, diary, handler, session=MainAsyncSession)
    assert await one(publisher, record) == DELIVERED
    assert await receipts(database) == {(str(record.id), handler.__name__)}
    assert await one(publisher, record) == DELIVERED
    assert diary.ran == [handler.__name__]


class Meets(WriteNote):
    """Begins its transaction only when two of it are there, so that both found nothing noted."""

    barrier = asyncio.Barrier(2)

    async def handle(self, event: AccountOpened) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.barrier.wait()
        await super().handle(event)


class WrapsErrors(Meets):
    async def handle(self, event: AccountOpened) -> None:
        try:
            await super().handle(event)
        except Exception as error:
            raise RuntimeError("the use case failed") from error


class SwallowsErrors(Meets):
    """Goes on in the same transaction after an error."""

    async def handle(self, event: AccountOpened) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.barrier.wait()
        try:
            await self.session.scalars(select(Note))
        except Exception:
            self.diary.ran.append("swallowed")
        self.session.add(Note(text="SwallowsErrors a@b.com"))
        await self.session.commit()


@pytest.mark.requirement("E3")
@pytest.mark.parametrize("handler", [Meets, WrapsErrors, SwallowsErrors])
async def test_two_workers_at_the_same_record_have_one_effect(
    database: AsyncEngine, record: ClaimedRecord, handler: type[Meets]
) -> None:
    handler.barrier = asyncio.Barrier(2)
    publishers = [
        await publisher_of_handlers(database, Diary(), handler, session=MainAsyncSession)
        for _ in range(2)
    ]
    outcomes = await asyncio.gather(*(one(publisher, record) for publisher in publishers))
    assert outcomes == [DELIVERED, DELIVERED]
    assert await notes(database) == [f"{handler.__name__} a@b.com"]


class Twice(WriteNote):
    """Two transactions, the first with a savepoint that is rolled back."""

    async def handle(self, event: AccountOpened) -> None:
        self.session.add(Note(text="one"))
        await self.session.flush()
        savepoint = await self.session.begin_nested()
        self.session.add(Note(text="lost"))
        await savepoint.rollback()
        async with self.session.begin_nested():
            self.session.add(Note(text="two"))
        await self.session.commit()
        self.session.add(Note(text="three"))
        await self.session.commit()


async def test_the_note_is_part_of_the_first_transaction_that_commits(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord
) -> None:
    publisher = await publisher_of_handlers(database, diary, Twice, session=MainAsyncSession)
    assert await one(publisher, record) == DELIVERED
    assert await notes(database) == ["one", "three", "two"]
    assert await receipts(database) == {(str(record.id), "Twice")}


class RetriesItself(WriteNote):
    """Rolls back a first try, savepoint and all, and commits a second."""

    async def handle(self, event: AccountOpened) -> None:
        async with self.session.begin_nested():
            self.session.add(Note(text="first try"))
        await self.session.rollback()
        await super().handle(event)


async def test_a_handler_may_roll_back_and_try_again(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord
) -> None:
    publisher = await publisher_of_handlers(
        database, diary, RetriesItself, session=MainAsyncSession
    )
    assert await one(publisher, record) == DELIVERED
    assert await notes(database) == ["RetriesItself a@b.com"]
    assert await receipts(database) == {(str(record.id), "RetriesItself")}


class Begins(WriteNote):
    """Gets a session that has begun."""

    def __init__(self, session: MainAsyncSession, diary: Diary) -> None:
        super().__init__(session, diary)
        session.add(Note(text="begun"))

    async def handle(self, event: AccountOpened) -> None:
        await self.session.commit()


async def test_a_session_that_is_used_while_the_handler_is_built_is_noted_in_too(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord
) -> None:
    publisher = await publisher_of_handlers(database, diary, Begins, session=MainAsyncSession)
    assert await one(publisher, record) == DELIVERED
    assert await notes(database) == ["begun"]
    assert await one(publisher, record) == DELIVERED
    assert await notes(database) == ["begun"]


@pytest.mark.parametrize("is_connected", [True, False])
async def test_a_session_that_has_begun_already_is_noted_in_at_once(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord, is_connected: bool
) -> None:
    class OwnScope:
        def __init__(self, session: AsyncSession) -> None:
            self.session = session

        async def __aenter__(self) -> "OwnScope":
            await self.session.begin()
            if is_connected:
                await self.session.scalars(select(Note))
            return self

        async def __aexit__(self, *error: object) -> None:
            await self.session.close()

        async def get(self, wanted: Any, /) -> Any:
            return self.session if wanted is AsyncSession else Saves(self.session, diary)

    class Saves(WriteNote):
        def __init__(self, session: Any, diary: Diary) -> None:
            super().__init__(session, diary)

        async def handle(self, event: AccountOpened) -> None:
            self.session.add(Note(text="saved"))
            await self.session.commit()

    def container() -> OwnScope:
        return OwnScope(AsyncSession(database))

    options = {"container": container, "session": AsyncSession}
    publisher = await publisher_of_handlers(database, diary, First, **options)
    assert await one(publisher, record) == DELIVERED
    assert await one(publisher, record) == DELIVERED  # as after a crash
    assert await notes(database) == ["saved"]


async def test_a_session_keeps_no_listeners(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord
) -> None:
    publisher = await publisher_of_handlers(database, diary, First, session=MainAsyncSession)
    await one(publisher, record)
    [session] = diary.sessions
    for name in ("after_begin", "before_commit", "after_commit"):
        of_all_sessions = list(getattr(Session().dispatch, name))
        assert list(getattr(session.sync_session.dispatch, name)) == of_all_sessions


class SavesPlainly:
    def __init__(self, session: Session) -> None:
        self.session = session

    def handle(self, event: AccountOpened) -> None:
        with self.session.begin():
            self.session.add(Note(text="plain"))


@pytest.mark.requirement("E3")
async def test_a_session_that_is_not_async_takes_the_note_as_well(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord
) -> None:
    driver = "sqlite" if database.dialect.name == "sqlite" else "postgresql+psycopg"
    plain = create_engine(database.url.set(drivername=driver), poolclass=NullPool)
    container = container_of_handlers(database, diary, SavesPlainly, sync_engine=plain)
    options = {"container": container, "session": Session}
    publisher = await publisher_of_handlers(database, diary, SavesPlainly, **options)
    assert await one(publisher, record) == DELIVERED
    assert await receipts(database) == {(str(record.id), "SavesPlainly")}
    assert await one(publisher, record) == DELIVERED
    assert await notes(database) == ["plain"]


class UsesTwoDatabases(SavesPlainly):
    def handle(self, event: AccountOpened) -> None:
        self.session.scalars(select(Account)).all()
        self.session.add(Note(text="plain"))
        self.session.commit()


async def test_of_several_databases_the_note_goes_to_that_of_the_outbox(
    engine: AsyncEngine, sync_engine: Engine, diary: Diary, record: ClaimedRecord, tmp_path: Path
) -> None:
    other = create_engine(f"sqlite:///{tmp_path / 'other.db'}", poolclass=NullPool)
    Account.metadata.tables["accounts"].create(other)
    inbox = outbox.tables.inbox
    binds: dict[Any, Any] = {Account: other, Note: sync_engine, inbox: sync_engine}

    def session() -> Iterator[Session]:
        with Session(binds=binds) as opened:
            yield opened

    provider = Provider(scope=Scope.REQUEST)
    provider.provide_all(session, UsesTwoDatabases)
    options = {"container": make_async_container(provider), "session": Session}
    publisher = await publisher_of_handlers(engine, diary, UsesTwoDatabases, **options)
    assert await one(publisher, record) == DELIVERED
    assert await receipts(engine) == {(str(record.id), "UsesTwoDatabases")}
    assert await notes(engine) == ["plain"]


@pytest.mark.parametrize("how", ["execution_options", "create_engine"])
async def test_a_session_without_transactions_is_refused(
    engine: AsyncEngine, diary: Diary, record: ClaimedRecord, how: str
) -> None:
    if how == "execution_options":
        careless = engine.execution_options(isolation_level="AUTOCOMMIT")
    else:
        careless = create_async_engine(engine.url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    publisher = await publisher_of_handlers(careless, diary, First, session=MainAsyncSession)
    outcome = await one(publisher, record)
    assert isinstance(outcome, Refused)
    assert "AUTOCOMMIT" in outcome.reason
    assert await notes(engine) == []


async def test_what_is_no_session_is_refused(
    engine: AsyncEngine, diary: Diary, record: ClaimedRecord
) -> None:
    publisher = await publisher_of_handlers(engine, diary, First, session=Diary)
    outcome = await one(publisher, record)
    assert isinstance(outcome, Refused)
    assert "session= stands for a Diary" in outcome.reason


@pytest.mark.parametrize(("handlers", "asked"), [((First,), 0), ((First, Second), 3)])
async def test_the_only_handler_of_an_event_costs_no_query(
    engine: AsyncEngine,
    diary: Diary,
    record: ClaimedRecord,
    handlers: tuple[type[WriteNote], ...],
    asked: int,
) -> None:
    statements: list[str] = []

    def listen(*arguments: Any) -> None:
        statements.append(arguments[2])

    publisher = await publisher_of_handlers(engine, diary, *handlers)
    event.listen(engine.sync_engine, "before_cursor_execute", listen)
    assert await one(publisher, record) == DELIVERED
    assert sum("outbox_inbox" in statement for statement in statements) == asked


async def test_a_receipt_that_cannot_be_written_does_not_undo_a_delivery(
    engine: AsyncEngine,
    diary: Diary,
    record: ClaimedRecord,
    caplog: pytest.LogCaptureFixture,
) -> None:
    publisher = await publisher_of_handlers(engine, diary, First, Second)
    async with engine.begin() as connection:
        await connection.execute(
            text("ALTER TABLE outbox_inbox ADD CONSTRAINT full_up CHECK (consumer = '') NOT VALID")
        )
    try:
        assert await one(publisher, record) == DELIVERED
    finally:
        async with engine.begin() as connection:
            await connection.execute(text("ALTER TABLE outbox_inbox DROP CONSTRAINT full_up"))
    assert "cannot add the receipt of First" in caplog.text
