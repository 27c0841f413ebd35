"""What the tests can ask for: a database, the application, users, what was delivered.

The servers are those of compose.yaml unless TEST_DATABASE_URL and TEST_RABBITMQ_URL say otherwise.
Each run makes a database of its own, and names of its own at the broker, and removes them.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import aio_pika
import httpx
import pytest
from aio_pika.abc import AbstractChannel
from alembic import command
from alembic.config import Config
from postroom import OutboxEventPublisher
from postroom.testing import RecordingPublisher, delivered  # noqa: F401  the second is a fixture
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine
from users import Someone

from family.infrastructure.database import make_engine
from family.infrastructure.outbox import outbox
from family.main import create_app
from family.settings import Settings

PROJECT = Path(__file__).parents[1]
POSTGRES = make_url(
    os.environ.get("TEST_DATABASE_URL", "postgresql://postgres:postgres@127.0.0.1:5432/postgres")
).set(drivername="postgresql+asyncpg")
RABBITMQ = os.environ.get("TEST_RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672/")


PATIENCE = 30.0
"""Seconds after which a test that waits has failed."""


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110  it looks at another process
            await asyncio.sleep(0.05)


async def administer(statement: str) -> None:
    engine = make_engine(POSTGRES).execution_options(isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(statement))
    await engine.dispose()


@pytest.fixture(scope="session")
def database_url() -> Iterator[str]:
    """A database with the tables that the migrations make."""
    name = f"family_test_{uuid4().hex[:12]}"
    asyncio.run(administer(f"CREATE DATABASE {name}"))
    try:
        url = POSTGRES.set(database=name).render_as_string(hide_password=False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DATABASE_URL", url)
            command.upgrade(Config(PROJECT / "alembic.ini"), "head")
        yield url
    finally:
        asyncio.run(administer(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
def settings(database_url: str) -> Settings:
    """Settings of an application whose events the test delivers by `await delivered()`."""
    return Settings(
        database_url=database_url,
        rabbitmq_url=RABBITMQ,
        rabbitmq_prefix=f"family-test-{uuid4().hex[:12]}",
        publish_in_application=False,
    )


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """Run the application in this process, and give a client of it."""
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://family") as http:
            yield http


@pytest.fixture
async def http(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(settings) as http:
        yield http


@pytest.fixture
def someone(http: httpx.AsyncClient) -> Callable[[], Someone]:
    """Make users, each one new."""
    return lambda: Someone(http)


@pytest.fixture
def ann(someone: Callable[[], Someone]) -> Someone:
    return someone()


@pytest.fixture
async def family(ann: Someone) -> str:
    """The id of Ann's family."""
    return await ann.create_family()


@pytest.fixture
async def engine(settings: Settings) -> AsyncIterator[AsyncEngine]:
    """The database, as the test itself sees it."""
    engine = make_engine(settings.database)
    yield engine
    await engine.dispose()


async def token_of(engine: AsyncEngine, invitation: str) -> str:
    """Read the token that was mailed."""
    token = "SELECT payload #>> '{token,value}' FROM auth.outbox_events WHERE aggregate_id = :id"
    async with engine.connect() as connection:
        return str(await connection.scalar(text(token), {"id": invitation}))


@pytest.fixture
def publisher() -> RecordingPublisher:
    """What was delivered, in place of RabbitMQ."""
    return RecordingPublisher()


@pytest.fixture
def relay(engine: AsyncEngine, publisher: RecordingPublisher) -> OutboxEventPublisher:
    return OutboxEventPublisher(outbox, engine, publisher)


@pytest.fixture
async def channel(settings: Settings) -> AsyncIterator[AbstractChannel]:
    """A channel to RabbitMQ. What the publisher declares is removed at the end."""
    connection = await aio_pika.connect(RABBITMQ)
    async with connection, connection.channel() as channel:
        yield channel
        for name in ("invitations", "members"):
            await channel.queue_delete(f"{settings.rabbitmq_prefix}.{name}")
        await channel.exchange_delete(f"{settings.rabbitmq_prefix}.events")


@pytest.fixture
def publishing(settings: Settings, channel: AbstractChannel) -> Settings:
    """Settings of an application that publishes to RabbitMQ itself."""
    settings.publish_in_application = True
    return settings
