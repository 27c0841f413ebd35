"""The three applications, for tests that hold for each of them.

Whatever maps a class or registers a handler runs in a process of its own: both can be done once
in a process, and the one that runs the tests is shared with those of other applications.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from yarl import URL

from tests.examples.migrated import alembic, empty_database
from tests.examples.server import Server, serve
from tests.support.command import Commands
from tests.support.listening import HOST
from tests.support.proxy import Proxy, proxy_to

NO_BROKER = "amqp://app:hunter2@127.0.0.1:1/"
"""Where no server listens. The API of messaging does not connect to it, that of family retries."""


def start(commands: Commands, application: str, database_url: str) -> Server:
    """Start an application as uvicorn does, and wait until it answers."""
    urls = {"DATABASE_URL": database_url, "RABBITMQ_URL": NO_BROKER}
    return serve(commands, f"{application}.main:create_app", **urls)


@contextmanager
def own_database(application: str) -> Iterator[str]:
    """Give the URL of a database that the migrations of an application have made."""
    with empty_database(application) as url:
        alembic(application, "upgrade head", DATABASE_URL=url)
        yield url


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """Stand before a server of a URL; give the proxy, and the URL that leads through it."""
    address = URL(url)
    assert address.port is not None, "the services of the tests say where they are"
    async with proxy_to(address.port) as proxy:
        yield proxy, str(address.with_host(HOST).with_port(proxy.port))
