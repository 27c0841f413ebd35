"""A COMMIT whose answer is lost: the transaction is run again with the same event id."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from postroom import OutboxRecord, database_outage
from tests.support.shop import Account, AccountClosed, outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.no_cover

WAITING = """
    SELECT count(*) > 0 FROM pg_locks JOIN pg_database ON pg_database.oid = database
    WHERE datname = current_database() AND NOT granted
"""


class Commits:
    """Has COMMITs of an engine lose their connection, before or after the server has done them."""

    def __init__(self, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
        self._dialect: Any = engine.sync_engine.dialect
        self._commit = self._dialect.do_commit
        self.lost: str | None = None
        monkeypatch.setattr(self._dialect, "do_commit", self)

    def __call__(self, connection: Any) -> None:
        if self.lost != "request":
            self._commit(connection)
        if self.lost is not None:
            self.lost = None
            connection.driver_connection.terminate()
            raise self._dialect.dbapi.InterfaceError("connection is closed")


@pytest.fixture
def commits(engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> Commits:
    return Commits(engine, monkeypatch)


async def rename(engine: AsyncEngine, closed: AccountClosed) -> None:
    """A change that no constraint but that of the record refuses to repeat."""
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(update(Account).values(name=Account.name + "!"))
        await outbox.dispatcher(session).dispatch([closed])


async def saved_account(engine: AsyncEngine) -> Account:
    async with AsyncSession(engine, expire_on_commit=False) as session, session.begin():
        account = Account.open("Ann")
        account.clear_events()
        session.add(account)
    return account


async def outcome(engine: AsyncEngine) -> tuple[str | None, int | None]:
    async with AsyncSession(engine) as session:
        name = await session.scalar(select(Account.name))
        return name, await session.scalar(select(func.count()).select_from(OutboxRecord))


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_a_transaction_that_is_run_again_happens_once(
    engine: AsyncEngine, commits: Commits, lost: str
) -> None:
    account = await saved_account(engine)
    closed = AccountClosed(account_id=account.id)
    commits.lost = lost
    with pytest.raises(DBAPIError) as failure:
        await rename(engine, closed)
    assert database_outage(failure.value)
    assert await outcome(engine) == (("Ann", 0) if lost == "request" else ("Ann!", 1))
    if lost == "request":
        await rename(engine, closed)
    else:
        with pytest.raises(IntegrityError, match="outbox_id_key"):
            await rename(engine, closed)
    assert await outcome(engine) == ("Ann!", 1)


async def test_a_repeat_waits_for_the_end_of_the_first_transaction(engine: AsyncEngine) -> None:
    account = await saved_account(engine)
    closed = AccountClosed(account_id=account.id)
    async with engine.connect() as first:
        await outbox.save(first, [closed])  # and its COMMIT is under way
        async with asyncio.TaskGroup() as group:
            again = group.create_task(refused(engine, closed))
            await eventually(lambda: is_waiting(first))
            await first.commit()
    assert again.result()
    assert await outcome(engine) == ("Ann", 1)


async def refused(engine: AsyncEngine, closed: AccountClosed) -> bool:
    async with engine.connect() as connection:
        try:
            await outbox.save(connection, [closed])
        except IntegrityError:
            return True
        return False


async def is_waiting(connection: Any) -> bool:
    return bool(await connection.scalar(text(WAITING)))
