"""The inbox on real databases: a message counts once, whatever happens to the transaction."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine, MetaData, NullPool, create_engine, func, select, text, update
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from postroom.errors import InboxError, PostroomError
from postroom.inbox import receipts
from postroom.inbox.inbox import Inbox
from tests.support.shop import outbox
from tests.support.waiting import eventually

metadata = MetaData()
inbox = Inbox(metadata, table="billing_inbox")


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'billing.db'}"
    address: str = request.getfixturevalue("postgres_sync_url")
    return address


@pytest.fixture
def billing(url: str) -> Iterator[Engine]:
    """A consumer's own database, through a driver that is not async."""
    engine = create_engine(url, poolclass=NullPool)
    metadata.create_all(engine)
    yield engine
    metadata.drop_all(engine)


@pytest.fixture
async def async_billing(billing: Engine) -> AsyncIterator[AsyncEngine]:
    """The same database, through an async driver."""
    driver = "sqlite+aiosqlite" if billing.dialect.name == "sqlite" else "postgresql+asyncpg"
    engine = create_async_engine(billing.url.set(drivername=driver), poolclass=NullPool)
    yield engine
    await engine.dispose()


def count(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(inbox.table)).scalar_one()


@pytest.mark.requirement("E3")
async def test_a_message_is_the_first_once_for_each_consumer(async_billing: AsyncEngine) -> None:
    message = uuid4()
    answers = []
    for consumer in ("billing", "billing", "audit", "billing"):
        async with AsyncSession(async_billing) as session, session.begin():
            answers.append(await inbox.accept(session, message, consumer=consumer))
    assert answers == [True, False, True, False]


@pytest.mark.requirement("E3")
def test_code_that_is_not_async_asks_the_same(billing: Engine) -> None:
    answers = []
    for message in ("m1", "m1", "m2"):
        with Session(billing) as session, session.begin():
            answers.append(inbox.accept_sync(session, message, consumer="billing"))
    assert answers == [True, False, True]


async def test_one_transaction_may_ask_twice(async_billing: AsyncEngine) -> None:
    async with AsyncSession(async_billing) as session, session.begin():
        assert await inbox.accept(session, "m1", consumer="billing")
        assert not await inbox.accept(session, "m1", consumer="billing")


@pytest.mark.requirement("E3")
async def test_a_rollback_takes_the_note_along(async_billing: AsyncEngine) -> None:
    for _ in range(2):
        async with AsyncSession(async_billing) as session:
            assert await inbox.accept(session, "m1", consumer="billing")
            await session.rollback()


async def _someone_waits(engine: AsyncEngine) -> None:
    """Return when a connection waits for another's lock."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with engine.connect() as connection:
        connection = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await eventually(lambda: connection.scalar(waiting), "somebody waits for a lock")


@pytest.mark.requirement("E3")
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("commits", [True, False])
async def test_the_second_of_a_pair_waits_for_how_the_first_ends(
    async_billing: AsyncEngine, commits: bool
) -> None:
    async def second() -> bool:
        async with AsyncSession(async_billing) as session, session.begin():
            return await inbox.accept(session, "m1", consumer="billing")

    async with AsyncSession(async_billing) as session:
        assert await inbox.accept(session, "m1", consumer="billing")
        waiting = asyncio.create_task(second())
        await _someone_waits(async_billing)
        await (session.commit() if commits else session.rollback())
    assert await waiting is not commits


@pytest.mark.requirement("E3")
async def test_a_message_that_comes_many_times_at_once_counts_once(
    async_billing: AsyncEngine,
) -> None:
    async def receive() -> bool:
        async with AsyncSession(async_billing) as session, session.begin():
            return await inbox.accept(session, "m1", consumer="billing")

    answers = await asyncio.gather(*(receive() for _ in range(8)))
    assert sorted(answers) == [False] * 7 + [True]


@pytest.mark.parametrize(
    ("message", "consumer", "error"),
    [
        ("", "billing", "a message id has 0 characters"),
        ("x" * 256, "billing", "a message id has 256 characters. It has 1 to 255"),
        ("a\0b", "billing", "which a database cannot hold"),
        ("\ud800", "billing", "which a database cannot hold"),
        ("m1", "", "a consumer has 0 characters"),
    ],
)
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_what_the_inbox_cannot_keep_is_refused(
    billing: Engine, message: str, consumer: str, error: str
) -> None:
    with Session(billing) as session, pytest.raises(ValueError, match=error) as caught:
        inbox.accept_sync(session, message, consumer=consumer)
    assert isinstance(caught.value, PostroomError)


def test_the_longest_message_id_fits(billing: Engine) -> None:
    with Session(billing) as session, session.begin():
        assert inbox.accept_sync(session, "ü" * 255, consumer="ü" * 255)


@pytest.mark.parametrize("message_id", [None, 7, b"m1"])
def test_what_is_no_message_id_is_refused(billing: Engine, message_id: Any) -> None:
    with (
        Session(billing) as session,
        session.begin(),
        pytest.raises(InboxError, match=f"a message id is {message_id!r}. It is a str or a UUID"),
    ):
        inbox.accept_sync(session, message_id, consumer="billing")
    assert count(billing) == 0


@pytest.mark.parametrize("consumer", [None, 7, b"billing", UUID(int=7)])
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_what_is_no_consumer_is_refused(billing: Engine, consumer: Any) -> None:
    with (
        Session(billing) as session,
        session.begin(),
        pytest.raises(InboxError, match=r"a consumer is .*a str.*consumer='billing'"),
    ):
        inbox.accept_sync(session, "m1", consumer=consumer)
    assert count(billing) == 0


async def test_old_receipts_are_forgotten_in_batches(
    billing: Engine, async_billing: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts, "BATCH", 2)
    with Session(billing) as session, session.begin():
        for number in range(8):
            inbox.accept_sync(session, f"m{number}", consumer="billing")
    _age(billing, [f"m{number}" for number in range(5)])
    assert await inbox.clean(async_billing, older_than=timedelta(days=7)) == 5
    assert count(billing) == 3
    assert await inbox.clean(async_billing, older_than=timedelta(days=7)) == 0


def _age(engine: Engine, messages: list[str]) -> None:
    on_sqlite = engine.dialect.name == "sqlite"
    ago = "datetime('now', '-8 days')" if on_sqlite else "now() - interval '8 days'"
    with engine.begin() as connection:
        old = inbox.table.c.message_id.in_(messages)
        connection.execute(update(inbox.table).where(old).values(received_at=text(ago)))


async def test_an_age_is_not_negative(engine: AsyncEngine) -> None:
    with pytest.raises(ValueError, match="older_than"):
        await inbox.clean(engine, older_than=timedelta(seconds=-1))


@pytest.mark.requirement("E3")
async def test_the_inbox_beside_an_outbox_is_one_too(engine: AsyncEngine) -> None:
    beside = outbox.inbox
    assert beside.table is outbox.tables.inbox
    async with AsyncSession(engine) as session, session.begin():
        assert await beside.accept(session, "m1", consumer="billing")
    assert await beside.clean(engine, older_than=timedelta(0)) == 1


def test_an_inbox_has_the_schema_it_is_given() -> None:
    own = Inbox(MetaData(schema="core"))
    assert own.table.fullname == "core.inbox"
    assert Inbox(MetaData(), schema="auth").table.fullname == "auth.inbox"


def test_a_database_that_cannot_keep_an_inbox_is_named() -> None:
    with pytest.raises(PostroomError, match="cannot be kept on mysql"):
        receipts.Receipts(inbox.table).insert_once(mysql.dialect())
