"""What every test, of the library and of the examples, can ask for: a database and a vhost."""

import gc
import os
from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import settings
from sqlalchemy import URL
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.support.broker import Broker
from tests.support.postgres import temporary_database, temporary_role
from tests.support.rabbitmq import temporary_vhost
from tests.support.waiting import FULL, PATIENCE, TEST_LIMIT

LATE = ("tests/integration", "tests/unit")
"""What begins after all others, in this order: short modules, so that no worker is the last."""
SHARED = ("tests/examples/messaging", "tests/chaos/private_broker", "tests/examples/test_demo")
"""The beginnings of the paths of tests that share servers."""

pytest_plugins = [
    "tests.requirements_report",
    "tests.support.browser",
    "tests.support.leftovers",
    "tests.time_report",
]

# TLS makes a connection on loopback take 24 ms instead of 13, and asyncio leaves its socket open
# when the event loop ends before the server has said good-bye. Processes that tests start have it.
os.environ.setdefault("PGSSLMODE", "disable")

# A slow machine is not a failure: the tests bound what they wait for themselves.
settings.register_profile("postroom", deadline=None, max_examples=100 if FULL else 25)
settings.load_profile("postroom")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have what takes long begin early; give every test its limit."""
    items.sort(key=lambda item: [item.nodeid.startswith(late) for late in reversed(LATE)])
    for item in items:
        item.add_marker(pytest.mark.timeout(TEST_LIMIT))


def pytest_collection_finish() -> None:
    """Spare the garbage collector what stays: thousands of tests, and all modules."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _collected_garbage() -> Iterator[None]:
    """Spare later collections what a module leaves in caches, which takes them 0.2 s each."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _patient_inspectors() -> None:
    """Give questions about an outbox more than 3 s: on a busy machine, they may need it."""
    from postroom.inspection.inspector import Inspector  # here, where coverage sees the import
    from postroom.inspection.reading import Reader

    for each in (Inspector, Reader):
        vars(each)["__init__"].__kwdefaults__["time_limit"] = timedelta(seconds=PATIENCE)


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    """Gives all tests that share a server process, or a module, to one pytest worker."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return next((shared for shared in SHARED if path.startswith(shared)), path)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduler:
    """Have pytest-xdist use it."""
    return Scheduler(config, log)


@pytest.fixture(scope="session")
def postgres_url(_postgres_database: URL) -> str:
    """This session's database, for asyncpg, and a role with a password that is hard to write."""
    return _with_driver(_postgres_database, "asyncpg")


@pytest.fixture(scope="session")
def postgres_sync_url(_postgres_database: URL) -> str:
    """The same database, for psycopg."""
    return _with_driver(_postgres_database, "psycopg")


@pytest.fixture
def rabbitmq_url() -> Iterator[str]:
    """A vhost of the test's own."""
    with temporary_vhost() as url:
        yield url


@pytest.fixture
def broker(rabbitmq_url: str) -> Iterator[Broker]:
    """RabbitMQ as those see it who consume."""
    broker = Broker(rabbitmq_url)
    yield broker
    broker.close()


@pytest.fixture(scope="session")
def _postgres_database() -> Iterator[URL]:
    from tests.support.leftovers import watched  # a plugin, which pytest imports first

    with (
        temporary_role() as login,
        temporary_database("shared", login=login) as url,
        watched(url),
    ):
        yield url


def _with_driver(url: URL, driver: str) -> str:
    return url.set(drivername=f"postgresql+{driver}").render_as_string(hide_password=False)
