"""A database of this run, the application on it, and a broker that records.

The services are those of compose.yaml (`docker compose up -d postgres rabbitmq`), or what
TEST_DATABASE_URL and TEST_RABBITMQ_URL name. A run makes a database of its own, and drops it.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import hypothesis
import pytest
from account import Account
from alembic import command
from alembic.config import Config
from fastapi import FastAPI
from postroom import OutboxRelay
from postroom.testing import RecordingPublisher
from postroom.testing import delivered as delivered  # a fixture; it uses `relay`
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

from messaging.database import make_engine
from messaging.main import create_app
from messaging.processing import Processor
from messaging.settings import Settings
from messaging.worker import make_relay

SERVER = os.environ.get(
    "TEST_DATABASE_URL", "postgresql://messaging:messaging@127.0.0.1:5432/messaging"
)
BROKER = os.environ.get("TEST_RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672/")
ALEMBIC = Path(__file__).parents[1] / "alembic.ini"

# A slow machine is not a failure.
hypothesis.settings.register_profile("messaging", deadline=None)
hypothesis.settings.load_profile("messaging")


@pytest.fixture(scope="session")
def database_url() -> Iterator[str]:
    """The URL of a database with all tables."""
    name = f"messaging_test_{uuid4().hex[:12]}"
    asyncio.run(_administer(f"CREATE DATABASE {name}"))
    url = make_url(SERVER).set(database=name).render_as_string(hide_password=False)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DATABASE_URL", url)
            command.upgrade(Config(ALEMBIC), "head")
        yield url
    finally:
        asyncio.run(_administer(f"DROP DATABASE {name} WITH (FORCE)"))


async def _administer(statement: str) -> None:
    engine = make_engine(SERVER).execution_options(isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(statement))
    await engine.dispose()


@pytest.fixture
def settings(database_url: str) -> Settings:
    """Settings with exchange and queues that only this test has."""
    own = f"test_{uuid4().hex[:12]}"
    return Settings(
        database_url=database_url,
        rabbitmq_url=BROKER,
        rabbitmq_exchange=own,
        rabbitmq_queue_prefix=f"{own}.",
    )


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = make_engine(database_url)
    yield engine
    await engine.dispose()


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[FastAPI]:
    """The API. It does not connect to the broker, as the worker delivers."""
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
async def account(app: FastAPI) -> AsyncIterator[Account]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield Account(client)


@pytest.fixture
def publisher() -> RecordingPublisher:
    return RecordingPublisher()


@pytest.fixture
def relay(settings: Settings, engine: AsyncEngine, publisher: RecordingPublisher) -> OutboxRelay:
    return make_relay(settings, engine, publisher)


@pytest.fixture
def processor(engine: AsyncEngine) -> Processor:
    return Processor(async_sessionmaker(engine, expire_on_commit=False))
