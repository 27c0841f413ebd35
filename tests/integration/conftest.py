"""The shop on real databases: its tables made once per session, emptied before each test."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from tests.support.command import Commands, commands_in
from tests.support.commit_order import relaxed
from tests.support.in_process import InProcess, in_process
from tests.support.shop import Base, outbox

SECRET = "s3cr:t/p@ss#%?&"
"""A password, of characters that are not easily had in a URL."""

EMPTY = (
    "".join(f"DELETE FROM {table.fullname};" for table in reversed(Base.metadata.sorted_tables))
    + "SELECT setval(pg_get_serial_sequence('outbox', 'position'), 1, false)"
)
"""Of tables with a few rows: TRUNCATE takes ten times as long, for its files."""
Story = Callable[[Session], None]
Play = Callable[[Story], Awaitable[None]]


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


@pytest.fixture
def sqlite_engine(tmp_path: Path) -> Iterator[Engine]:
    """A SQLite file."""
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture(params=["postgresql-sync", "postgresql-async", "sqlite"])
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
async def sqlite_file(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """A SQLite file, through aiosqlite."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield engine
    await engine.dispose()


@pytest.fixture(params=["postgresql", "sqlite"])
def database(request: pytest.FixtureRequest) -> AsyncEngine:
    """Each database that a relay works on."""
    name = "engine" if request.param == "postgresql" else "sqlite_file"
    engine: AsyncEngine = request.getfixturevalue(name)
    return engine


@pytest.fixture
def postroom(tmp_path: Path) -> Iterator[Commands]:
    """Start the command `postroom`; no process of it writes a password."""
    with commands_in(tmp_path, SECRET, quote(SECRET, safe=""), "guest:guest") as commands:
        yield commands


@pytest.fixture
def run_postroom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    """Run the command `postroom` in this process; it writes no password."""
    secrets = (SECRET, quote(SECRET, safe=""), "guest:guest")
    with in_process(tmp_path, monkeypatch, *secrets) as run_postroom:
        yield run_postroom


@pytest.fixture
def database_url(postgres_url: str, engine: AsyncEngine) -> str:
    """The shop's database on PostgreSQL as a user writes it: no driver, a difficult password."""
    url = make_url(postgres_url).set(drivername="postgresql", password=SECRET)
    return url.render_as_string(hide_password=False)
