"""Handlers that fail half-way: what they committed, what is noted of them, and what runs again."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from postroom import EventRegistry, HandlersPublisher, OutboxRelay, RetrySchedule
from postroom.identity import uuid7
from postroom.publishers.base import DELIVERED, Refused
from postroom.record import ClaimedRecord
from postroom.testing import FakeClock
from tests.support.note_handlers import (
    Diary,
    MainAsyncSession,
    WriteNote,
    container_of_handlers,
    notes,
    one,
    publisher_of_handlers,
)
from tests.support.shop import AccountOpened, outbox
from tests.support.waiting import PATIENCE, eventually

SOON = timedelta(seconds=0.5)


def opened() -> AccountOpened:
    return AccountOpened(account_id=uuid7(), email="a@b.com")


async def execute(engine: AsyncEngine, statement: str) -> None:
    async with engine.begin() as connection:
        await connection.execute(text(statement))


class First(WriteNote):
    pass


class HangsOnce(WriteNote):
    """Commits, and then waits for ever, the first time."""

    async def handle(self, event: AccountOpened) -> None:
        await super().handle(event)
        if len(self.diary.ran) == 1:
            await asyncio.Event().wait()


async def test_a_handler_that_timed_out_after_its_commit_is_run_again(
    database: AsyncEngine, diary: Diary, record: ClaimedRecord
) -> None:
    options: dict[str, Any] = {"session": MainAsyncSession, "timeout": SOON}
    publisher = await publisher_of_handlers(database, diary, HangsOnce, **options)
    outcome = await one(publisher, record)
    assert isinstance(outcome, Refused)
    assert "took longer than" in outcome.reason
    assert await one(publisher, record) == DELIVERED
    assert await one(publisher, record) == DELIVERED
    assert diary.ran == ["HangsOnce"] * 2
    assert await notes(database) == ["HangsOnce a@b.com"] * 2


class LosesTheInbox(WriteNote):
    """Commits, and then fails, the first time, while the inbox goes away."""

    async def handle(self, event: AccountOpened) -> None:
        await super().handle(event)
        if len(self.diary.ran) == 1:
            async with self.session.begin():
                await self.session.execute(text("ALTER TABLE outbox_inbox RENAME TO inbox_away"))
            raise RuntimeError("the mail cannot be sent")


async def test_that_a_handler_is_done_is_taken_back_however_long_it_takes(
    engine: AsyncEngine, diary: Diary, record: ClaimedRecord, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = await publisher_of_handlers(engine, diary, LosesTheInbox, session=MainAsyncSession)
    delivery = asyncio.create_task(one(publisher, record))
    try:
        await eventually(lambda: "cannot delete the receipt of LosesTheInbox" in caplog.text)
        assert not delivery.done()
        await execute(engine, "ALTER TABLE inbox_away RENAME TO outbox_inbox")
        async with asyncio.timeout(PATIENCE):
            outcome = await delivery
    finally:
        delivery.cancel()
        await execute(engine, "ALTER TABLE IF EXISTS inbox_away RENAME TO outbox_inbox")
    assert isinstance(outcome, Refused)
    assert await one(publisher, record) == DELIVERED
    assert diary.ran == ["LosesTheInbox"] * 2


class Broken(WriteNote):
    async def handle(self, event: AccountOpened) -> None:
        raise RuntimeError("no")


@pytest.mark.parametrize("session", [None, MainAsyncSession])
async def test_a_handler_that_succeeded_is_not_run_again_when_the_one_that_failed_is_gone(
    database: AsyncEngine, diary: Diary, session: Any
) -> None:
    clock = FakeClock()

    def release(*handlers: type[WriteNote]) -> OutboxRelay:
        registry = EventRegistry()
        for handler in handlers:
            registry.handles(AccountOpened, name=handler.__name__)(handler)
        container = container_of_handlers(database, diary, *handlers)
        publisher = HandlersPublisher(container, session=session, registry=registry)
        retry = RetrySchedule.seconds(60, forever=True)
        return OutboxRelay(outbox, database, publisher, clock=clock, retry=retry)

    async with AsyncSession(database) as saving:
        await outbox.dispatcher(saving).dispatch([opened()])
        await saving.commit()
    assert (await release(First, Broken).run_once()).retried == 1
    clock.advance(timedelta(minutes=2))
    assert (await release(First).run_once()).delivered == 1
    assert diary.ran == ["First"]
    assert await notes(database) == ["First a@b.com"]
