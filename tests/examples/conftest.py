"""What the tests of every example, and of the demo, can ask for."""

import re
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio

from tests.support.command import Commands, commands_in
from tests.support.demo import Demo, as_make_does, running_demo
from tests.support.migrated import empty_database
from tests.support.rabbitmq import temporary_vhost

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")
Target = tuple[str, Callable[[], set[str]]]


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    """Start processes for one test; none is left, and none writes a password."""
    with commands_in(tmp_path, "guest:guest") as commands:
        yield commands


@pytest.fixture(scope="session")
def session_commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Start processes that all tests share: servers, whose tests use data of their own."""
    with commands_in(tmp_path_factory.mktemp("processes"), "guest:guest") as commands:
        yield commands


@pytest.fixture(scope="session")
def rabbitmq_url() -> Iterator[str]:
    """A vhost in which nobody but the examples declares what they declare."""
    with temporary_vhost() as url:
        yield url


@pytest.fixture
def postgresql() -> Iterator[Target]:
    with empty_database("example") as url:

        def tables() -> set[str]:
            with psycopg.connect(url.replace("+asyncpg", "")) as connection:
                query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
                return {name for [name] in connection.execute(query)}

        yield url, tables


@pytest.fixture
def sqlite(tmp_path: Path) -> Target:
    file = tmp_path / "example.db"

    def tables() -> set[str]:
        with closing(sqlite3.connect(file)) as connection:
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
            names = {name for [name] in connection.execute(query)}
            return names - {"sqlite_sequence"}  # SQLite's own, and it cannot be dropped

    return f"sqlite+aiosqlite:///{file}", tables


@pytest.fixture(params=["postgresql", "sqlite"])
def empty(request: pytest.FixtureRequest) -> Target:
    """The URL of an empty database of each kind, and what tells its tables."""
    target: Target = request.getfixturevalue(request.param)
    return target


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A demo, which ends by SIGTERM, and whose lines have no ids."""
    with running_demo(tmp_path_factory.mktemp("demo"), as_make_does) as demo:
        yield demo
        demo.end(signal.SIGTERM)
        assert not [line for line in demo.printed if ID.search(line)]


@pytest_asyncio.fixture(loop_scope="session")  # for tests with a browser, too
async def demo(started: Demo) -> Demo:
    """The demo, when its own traffic is delivered and no more comes."""
    started.press("start-broker")  # a test that failed may have left it stopped
    await started.until(lambda state: state["counters"]["delivered"], "traffic begins by itself")
    started.press("stop-traffic")
    await started.until_all_is_delivered()
    return started
