"""The shop on real databases: its tables made once per session, emptied before each test."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, Engine, create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from tests.support.command import Commands, commands_in
from tests.support.commit_order import relaxed
from tests.support.doctor_checks import Checks, checks_at
from tests.support.in_process import InProcess, in_process
from tests.support.postgres import temporary_database
from tests.support.services import SECRETS
from tests.support.shop import Base, outbox
from tests.support.shop_with_failures import Shop, save_with_failures
from tests.support.story import Play, Story
from tests.support.waiting import FULL

EMPTY = (
    "".join(f"DELETE FROM {table.fullname};" for table in reversed(Base.metadata.sorted_tables))
    + "SELECT setval(pg_get_serial_sequence('outbox', 'position'), 1, false)"
)
"""Of tables with a few rows: TRUNCATE takes ten times as long, for its files."""


@pytest.fixture(scope="session")
def _shop_tables(postgres_sync_url: str) -> Iterator[Engine]:
    engine = create_engine(postgres_sync_url)
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def sync_engine(_shop_tables: Engine) -> Engine:
    """PostgreSQL through psycopg."""
    with _shop_tables.begin() as connection:
        connection.execute(text(EMPTY))
    return _shop_tables


@pytest.fixture
async def engine(sync_engine: Engine, postgres_url: str) -> AsyncIterator[AsyncEngine]:
    """PostgreSQL through asyncpg."""
    engine = create_async_engine(postgres_url)
    yield engine
    await engine.dispose()


@pytest.fixture
async def relaxed_tables(engine: AsyncEngine) -> AsyncIterator[None]:
    """The tables of an outbox that does not lock."""
    async with engine.begin() as connection:
        await connection.run_sync(relaxed.metadata.create_all)
    yield
    async with engine.begin() as connection:
        await connection.run_sync(relaxed.metadata.drop_all)


@pytest.fixture(scope="session")
def _empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("empty") / "shop.db"
    engine = create_engine(f"sqlite:///{file}")
    Base.metadata.create_all(engine)
    engine.dispose()
    return file


@pytest.fixture
def shop_file(tmp_path: Path, _empty_file: Path) -> Path:
    """The shop's tables in a SQLite file: a copy, for to create them takes far longer."""
    return Path(shutil.copy(_empty_file, tmp_path / "shop.db"))


@pytest.fixture
def sqlite_engine(shop_file: Path) -> Iterator[Engine]:
    """A SQLite file."""
    engine = create_engine(f"sqlite:///{shop_file}")
    yield engine
    engine.dispose()


SYNC = pytest.param("postgresql-sync", marks=pytest.mark.extended)


@pytest.fixture(params=[SYNC, "postgresql-async", "sqlite"])
def play(request: pytest.FixtureRequest) -> Play:
    """Run a story in a session whose aggregates are captured: sync, async, on either database."""

    async def play_async(story: Story) -> None:
        engine: AsyncEngine = request.getfixturevalue("engine")
        sessions = async_sessionmaker(engine)
        outbox.capture(sessions)
        async with sessions() as session:
            await session.run_sync(story)

    async def play_sync(story: Story) -> None:
        sqlite = request.param == "sqlite"
        sessions = sessionmaker(
            request.getfixturevalue("sqlite_engine" if sqlite else "sync_engine")
        )
        outbox.capture(sessions)
        with sessions() as session:
            story(session)

    if request.param == "postgresql-async":
        request.getfixturevalue("engine")  # an async fixture is set up before the test runs
        return play_async
    return play_sync


@pytest.fixture
def session(sync_engine: Engine) -> Iterator[Session]:
    """A session on PostgreSQL whose aggregates are captured."""
    sessions = sessionmaker(sync_engine)
    outbox.capture(sessions)
    with sessions() as session:
        yield session


@pytest.fixture
async def sqlite_file(shop_file: Path) -> AsyncIterator[AsyncEngine]:
    """A SQLite file, through aiosqlite."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{shop_file}")
    yield engine
    await engine.dispose()


@pytest.fixture(params=["postgresql", "sqlite"])
def database(request: pytest.FixtureRequest) -> AsyncEngine:
    """Each database that a relay works on."""
    name = "engine" if request.param == "postgresql" else "sqlite_file"
    engine: AsyncEngine = request.getfixturevalue(name)
    return engine


@pytest.fixture(params=["postgresql", "sqlite"])
def sync_database(request: pytest.FixtureRequest) -> Engine:
    """Each database, through a driver that is not async."""
    name = "sync_engine" if request.param == "postgresql" else "sqlite_engine"
    engine: Engine = request.getfixturevalue(name)
    return engine


@pytest.fixture
def postroom(tmp_path: Path) -> Iterator[Commands]:
    """Start the command `postroom`; no process of it writes a password."""
    with commands_in(tmp_path, *SECRETS) as commands:
        yield commands


@pytest.fixture
def run_postroom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    """Run the command `postroom` in this process; it writes no password."""
    with in_process(tmp_path, monkeypatch, *SECRETS) as run_postroom:
        yield run_postroom


@pytest.fixture
def database_url(postgres_url: str, engine: AsyncEngine) -> str:
    """The shop's database on PostgreSQL as a user writes it: no driver, a difficult password."""
    return make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.fixture(scope="module")
def doctor_database() -> Iterator[URL]:
    """A database that a module of tests has to itself, with its transactions and statistics."""
    with temporary_database("doctor") as url:
        yield url


@pytest.fixture
async def checks(doctor_database: URL) -> AsyncIterator[Checks]:
    """The checks of `postroom doctor` on an outbox that was just created there."""
    async with checks_at(doctor_database.set(drivername="postgresql+asyncpg")) as checks:
        yield checks


@pytest.fixture(params=["postgresql", "sqlite"] if FULL else ["sqlite"])
def empty_shop(request: pytest.FixtureRequest, run_postroom: InProcess) -> Shop:
    """An outbox without a record. (On PostgreSQL, test_secrets.py runs every command, too.)"""
    is_sqlite = request.param == "sqlite"
    engine: Engine = request.getfixturevalue("sqlite_engine" if is_sqlite else "sync_engine")
    assert engine is not None
    url = "sqlite:///shop.db" if is_sqlite else request.getfixturevalue("database_url")
    return Shop(url, run_postroom)


@pytest.fixture(scope="session")
def _shop_with_failures(tmp_path_factory: pytest.TempPathFactory, _empty_file: Path) -> Path:
    file = Path(shutil.copy(_empty_file, tmp_path_factory.mktemp("shop") / "shop.db"))
    asyncio.run(save_with_failures(f"sqlite:///{file}"))
    return file


@pytest.fixture
def shop(empty_shop: Shop, tmp_path: Path, _shop_with_failures: Path) -> Shop:
    """An outbox in which three records have failed, and three wait."""
    if empty_shop.url.startswith("sqlite"):
        shutil.copy(_shop_with_failures, tmp_path / "shop.db")
    else:
        asyncio.run(save_with_failures(empty_shop.url))
    return empty_shop


SHOP_MODULE = """
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine
from postroom import MemoryPublisher, Outbox, OutboxRecord, OutboxRelay

outbox = Outbox(MetaData(), record=type("ShopRecord", (OutboxRecord,), {}))
relay = OutboxRelay(outbox, create_async_engine("sqlite+aiosqlite:///shop.db"), MemoryPublisher())
"""


@pytest.fixture
def shop_module(sqlite_engine: Engine, run_postroom: InProcess) -> InProcess:
    """A module with a relay and an outbox, whose database has the tables."""
    run_postroom.write("shop_module.py", SHOP_MODULE)
    return run_postroom
