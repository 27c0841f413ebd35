"""A handler's time-out is for the handler alone: the time of postroom's notes does not count."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import Session

from postroom import EventRegistry, HandlersPublisher, OutboxRelay, RetrySchedule, Status
from postroom.identity import uuid7
from postroom.publishers.base import Refused
from tests.support.claims import claimed
from tests.support.note_handlers import (
    Diary,
    MainAsyncSession,
    WriteNote,
    container_of_handlers,
    publisher_of_handlers,
)
from tests.support.rows import rows, save
from tests.support.shop import AccountOpened, Note, outbox
from tests.support.waiting import PATIENCE, eventually

LIMIT = timedelta(seconds=1)
WAITED_LONG = text(
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    " AND datname = current_database() AND clock_timestamp() - query_start > :longer"
)


class First(WriteNote):
    pass


class Second(WriteNote):
    pass


class InThread:
    """Writes in a thread, with a plain session."""

    def __init__(self, session: Session, diary: Diary) -> None:
        self.session = session
        self.diary = diary

    async def handle(self, event: AccountOpened) -> None:
        await asyncio.to_thread(self._write)

    def _write(self) -> None:
        self.diary.ran.append(type(self).__name__)
        with self.session.begin():
            self.session.add(Note(text=type(self).__name__))


class SecondInThread(InThread):
    pass


def opened() -> AccountOpened:
    return AccountOpened(account_id=uuid7(), email="a@b.com")


@asynccontextmanager
async def locked_inbox(engine: AsyncEngine) -> AsyncIterator[None]:
    """Lock the inbox against writing, for longer than a handler may take."""
    async with engine.connect() as connection:
        await connection.execute(text("LOCK TABLE outbox_inbox IN EXCLUSIVE MODE"))
        yield
        await eventually(lambda: _wait_long(engine), "somebody waits for the lock")


async def _wait_long(engine: AsyncEngine) -> int:
    async with engine.connect() as connection:
        return int(await connection.scalar(WAITED_LONG, {"longer": 1.5 * LIMIT}) or 0)


@pytest.mark.parametrize(
    ("handlers", "session"),
    [
        pytest.param((First, Second), None, marks=pytest.mark.extended, id="without a session"),
        pytest.param((First, Second), MainAsyncSession, id="with a session"),
        pytest.param(
            (InThread, SecondInThread), Session, marks=pytest.mark.extended, id="in a thread"
        ),
    ],
)
async def test_a_locked_inbox_is_no_handlers_fault(
    engine: AsyncEngine, sync_engine: Engine, handlers: tuple[type[Any], ...], session: Any
) -> None:
    diary, registry = Diary(), EventRegistry()
    for handler in handlers:
        registry.handles(AccountOpened, name=handler.__name__)(handler)
    container = container_of_handlers(engine, diary, *handlers, sync_engine=sync_engine)
    publisher = HandlersPublisher(container, session=session, timeout=LIMIT, registry=registry)
    relay = OutboxRelay(outbox, engine, publisher, retry=RetrySchedule.polls())
    await save(engine, opened())
    async with AsyncExitStack() as stack:
        async with locked_inbox(engine):
            await stack.enter_async_context(relay.running())
        await eventually(lambda: _is_settled(engine), "the record is settled")

    [row] = await rows(engine)
    assert sorted(diary.ran) == sorted(handler.__name__ for handler in handlers)
    assert (row.status, row.retry_count) == (Status.PUBLISHED, 0)


async def _is_settled(engine: AsyncEngine) -> bool:
    [row] = await rows(engine)
    return row.status != Status.PENDING or row.retry_count > 0


class HangsInside(WriteNote):
    """Never ends, in a transaction that has the note in it."""

    async def handle(self, event: AccountOpened) -> None:
        self.diary.ran.append("HangsInside")
        async with self.session.begin():
            self.session.add(Note(text="never"))
            await self.session.flush()
            await asyncio.Event().wait()


async def test_a_handler_that_takes_too_long_after_its_note_is_refused(
    engine: AsyncEngine,
) -> None:
    options: dict[str, Any] = {"session": MainAsyncSession, "timeout": LIMIT / 10}
    publisher = await publisher_of_handlers(engine, Diary(), HangsInside, **options)
    async with asyncio.timeout(PATIENCE):
        [outcome] = await publisher.publish([claimed(opened())])
    assert isinstance(outcome, Refused)
    assert outcome.reason.startswith("HangsInside: TimeoutError: ")
