"""A database whose transactions are REPEATABLE READ or SERIALIZABLE unless they say otherwise."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import NullPool, create_engine, make_url, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)

from postroom import (
    ClaimedRecord,
    EventRegistry,
    HandlersPublisher,
    MemoryPublisher,
    Message,
    OutboxRelay,
    Outcome,
    Publisher,
    Refused,
    RetrySchedule,
    Status,
)
from postroom.database.database import LEASE, Database, own_engine
from postroom.database.errors import STATES
from postroom.operations import Operations
from postroom.testing import RecordingPublisher
from tests.support.note_handlers import Diary, MainAsyncSession, WriteNote, container_of_handlers
from tests.support.pgbouncer import pgbouncer_to
from tests.support.postgres import temporary_database
from tests.support.rows import all_delivered, save, until
from tests.support.shop import (
    Account,
    AccountClosed,
    AccountOpened,
    AccountRenamed,
    Base,
    Note,
    outbox,
)
from tests.support.waiting import eventually

WRITERS = 4
"""How many change an account at once."""
RENAMES = 3
"""How often each does so."""
ACCOUNTS = 4
TRY_AGAIN = ("40001", "40P01")
"""Serialization failures, and deadlocks."""
FAILED = Status.FAILED
WAITING = """
    SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
    WHERE datname = current_database() AND NOT granted
"""
OLD_RECORDS = """
    UPDATE outbox SET created_at = now() - interval '90 days',
        published_at = now() - interval '90 days'
"""
OLD_RECEIPTS = """
    INSERT INTO outbox_inbox (message_id, consumer, received_at)
    SELECT n, 'somebody', now() - interval '90 days' FROM generate_series(1, 5) n
"""


REPEATABLE_READ = pytest.param("repeatable read", marks=pytest.mark.extended)


@pytest.fixture(scope="module", params=[REPEATABLE_READ, "serializable"])
def strict_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of that default isolation, with the shop's tables."""
    with temporary_database("strict") as url:
        engine = create_engine(url.set(drivername="postgresql+psycopg"), poolclass=NullPool)
        setting = f"default_transaction_isolation = '{request.param}'"
        with engine.begin() as connection:
            Base.metadata.create_all(connection)
            connection.execute(text(f"ALTER DATABASE {url.database} SET {setting}"))
        yield url.set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)


@pytest.fixture
async def strict(strict_url: str) -> AsyncIterator[AsyncEngine]:
    """An engine on it, whose tables are empty."""
    engine = create_async_engine(strict_url)
    async with engine.begin() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            if table is not outbox.tables.leases:
                await connection.execute(table.delete())
    yield engine
    await engine.dispose()


@pytest.fixture
def no_conflict(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail when postroom logs a serialization failure, also of a transaction it tries again."""
    caplog.set_level(logging.INFO, logger="postroom.store")
    yield
    logged = caplog.get_records("call")  # `caplog.records` has those of the teardown by now
    lines = [each.getMessage() for each in logged if each.name.startswith("postroom")]
    conflicts = ("serialize", STATES["40001"])
    assert [line for line in lines if any(each in line for each in conflicts)] == []


def fast(engine: AsyncEngine, publisher: Publisher, **options: Any) -> OutboxRelay:
    """Make a relay that polls, and tries again, soon."""
    chosen: dict[str, Any] = {
        "poll_interval": timedelta(seconds=0.2),
        "retry": RetrySchedule.seconds(0.05, forever=True),
        **options,
    }
    return OutboxRelay(outbox, engine, publisher, **chosen)


class Moody(RecordingPublisher):
    """Refuses some records twice."""

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        refused = {each for each in records if each.position % 5 == 0 and each.retry_count < 2}
        outcomes = iter(await super().publish([each for each in records if each not in refused]))
        return [Refused("not yet") if each in refused else next(outcomes) for each in records]


# -- writers


async def open_accounts(engine: AsyncEngine) -> list[UUID]:
    sessions = async_sessionmaker(engine, expire_on_commit=False)
    outbox.capture(sessions)
    accounts = [Account.open("0") for _ in range(ACCOUNTS)]
    async with sessions() as session, session.begin():
        session.add_all(accounts)
    return [account.id for account in accounts]


async def count_up(engine: AsyncEngine, account: UUID) -> None:
    """Rename an account to the next number, again and again, as several do at once."""
    sessions = async_sessionmaker(engine)
    outbox.capture(sessions)
    for _ in range(RENAMES):
        while not await counted(sessions, account):
            pass


async def counted(sessions: async_sessionmaker[AsyncSession], account: UUID) -> bool:
    """Change an account; tell whether nobody else has changed it meanwhile."""
    try:
        async with sessions() as session, session.begin():
            # FOR UPDATE: SQLAlchemy 2.0 has asyncpg begin in READ COMMITTED, whatever the default.
            found = await session.get_one(Account, account, with_for_update=True)
            found.rename(str(int(found.name) + 1))
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) not in TRY_AGAIN:
            raise
        return False
    return True


def names_by_account(messages: Iterable[Message]) -> dict[str, list[str]]:
    names = defaultdict(list)
    for message in messages:
        if message.event_type == AccountRenamed.__name__:
            names[str(message.aggregate_id)].append(message.payload["name"])
    return names


@pytest.mark.requirement("E14")
async def test_what_several_write_at_once_is_delivered_by_two_relays_in_the_order_of_commits(
    strict: AsyncEngine, no_conflict: None
) -> None:
    publisher = Moody()
    async with fast(strict, publisher).running(), fast(strict, publisher).running():
        accounts = await open_accounts(strict)
        await asyncio.gather(*[count_up(strict, each) for each in accounts * WRITERS])
        await until(strict, all_delivered)

    in_order = [str(number) for number in range(1, WRITERS * RENAMES + 1)]
    assert names_by_account(publisher.messages) == {str(each): in_order for each in accounts}
    assert len(publisher.messages) == ACCOUNTS * (WRITERS * RENAMES + 1)


# -- handlers


class First(WriteNote):
    """Fails for each event, the first time."""

    async def handle(self, event: AccountOpened) -> None:
        if event.email not in self.diary.ran:
            self.diary.ran.append(event.email)
            raise RuntimeError("not yet")
        await super().handle(event)


class Second(WriteNote):
    pass


def handlers(engine: AsyncEngine, diary: Diary) -> HandlersPublisher:
    registry = EventRegistry()
    for handler in (First, Second):
        registry.handles(AccountOpened, name=handler.__name__)(handler)
    container = container_of_handlers(engine, diary, First, Second)
    return HandlersPublisher(container, registry=registry, session=MainAsyncSession)


@pytest.mark.requirement("E14", "E3")
async def test_two_relays_run_each_handler_once_for_each_event_in_order(
    strict: AsyncEngine, no_conflict: None
) -> None:
    diary = Diary()
    accounts = [uuid4() for _ in range(5)]
    events = [
        AccountOpened(account_id=account, email=f"{account} {number}")
        for number in range(4)
        for account in accounts
    ]
    relays = [fast(strict, handlers(strict, diary)) for _ in range(2)]
    async with relays[0].running(), relays[1].running():
        await save(strict, *events)
        await until(strict, all_delivered)

    expected = [f"{name} {event.email}" for name in ("First", "Second") for event in events]
    notes = await notes_of(strict)
    assert sorted(notes) == sorted(expected)
    for account in accounts:
        theirs = [note for note in notes if note.startswith(f"Second {account}")]
        assert theirs == [f"Second {account} {number}" for number in range(4)]


async def notes_of(engine: AsyncEngine) -> list[str]:
    async with engine.connect() as connection:
        return list(await connection.scalars(select(Note.text).order_by(Note.id)))


# -- people


@pytest.mark.requirement("E14")
async def test_failed_records_are_retried_and_discarded_while_two_relays_deliver(
    strict: AsyncEngine, no_conflict: None
) -> None:
    publisher = RecordingPublisher()
    publisher.refuse("AccountClosed", times=ACCOUNTS, permanent=True)
    accounts = [uuid4() for _ in range(ACCOUNTS)]
    relay = fast(strict, publisher, retention=timedelta())
    async with relay.running(), fast(strict, publisher, retention=timedelta()).running():
        await save(strict, *[AccountClosed(account_id=each) for each in accounts])
        failed = await until(strict, lambda found: all(each.status == FAILED for each in found))
        for name in ("a", "b"):
            await save(strict, *[AccountRenamed(account_id=each, name=name) for each in accounts])
        discarded, *retried = [each.id for each in failed]
        operations = Operations(outbox, strict)
        done = await asyncio.gather(
            operations.discard([discarded]),
            *[operations.retry([each]) for each in retried],
        )
        await until(strict, lambda found: not found)

    assert sum(done) == ACCOUNTS
    assert len(publisher.published("AccountClosed")) == ACCOUNTS - 1
    assert names_by_account(publisher.messages) == {str(each): ["a", "b"] for each in accounts}


@pytest.mark.requirement("E14")
@pytest.mark.parametrize("table", ["outbox", "outbox_inbox"])
async def test_a_clean_up_goes_on_when_another_has_deleted_the_same_rows(
    strict: AsyncEngine, no_conflict: None, table: str
) -> None:
    relay = fast(strict, MemoryPublisher(), retention=timedelta(days=1))
    await save(strict, *[AccountOpened(account_id=uuid4(), email="a@b") for _ in range(5)])
    await relay.run_once()
    async with strict.begin() as connection:
        for statement in (OLD_RECORDS, OLD_RECEIPTS):
            await connection.execute(text(statement))

    async with strict.begin() as other:
        await other.execute(text(f"LOCK TABLE {table} IN EXCLUSIVE MODE"))
        await other.execute(text(f"DELETE FROM {table}"))
        cleaning = asyncio.create_task(relay.clean())
        await eventually(lambda: somebody_waits(strict), "the clean-up has begun")
    await cleaning

    async with strict.connect() as connection:
        for each in ("outbox", "outbox_inbox"):
            assert await connection.scalar(text(f"SELECT count(*) FROM {each}")) == 0


async def somebody_waits(engine: AsyncEngine) -> bool:
    async with engine.connect() as connection:
        return bool(await connection.scalar(text(WAITING)))


BEHIND_PGBOUNCER: dict[str, dict[str, Any]] = {
    "asyncpg": {
        "statement_cache_size": 0,
        "prepared_statement_cache_size": 0,
        "prepared_statement_name_func": lambda: "",
    },
    "psycopg": {"prepare_threshold": None},
}


@pytest.mark.requirement("E14")
@pytest.mark.parametrize("driver", ["asyncpg", pytest.param("psycopg", marks=pytest.mark.extended)])
@pytest.mark.parametrize("pooled", [False, True], ids=["directly", "behind PgBouncer"])
async def test_a_statement_that_is_a_transaction_by_itself_sees_the_latest_too(
    strict_url: str, driver: str, pooled: bool
) -> None:
    with pgbouncer_to(strict_url) if pooled else nullcontext(make_url(strict_url)) as url:
        given = BEHIND_PGBOUNCER[driver] if pooled else {}
        engine = create_async_engine(url.set(drivername=f"postgresql+{driver}"), connect_args=given)
        own = own_engine(engine, outbox.tables, LEASE)
        database = Database(own, outbox.tables, keep_connections=True)
        level = text("SELECT current_setting('transaction_isolation') AS level")
        [row] = await database.fetch(level)
        await database.close()
    assert row.level == "read committed"
