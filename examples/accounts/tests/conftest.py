"""A database with all tables, which is made once and emptied before each test that uses it.

TEST_DATABASE_URL names a database on the server to use; without it, that of compose.yaml.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from accounts_api import client_of, wired
from alembic import command
from alembic.config import Config
from fastapi import FastAPI
from postroom import OutboxRelay
from postroom.testing import delivered
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from accounts.main import container_of
from accounts.mapping import start_mappers
from accounts.settings import Settings

__all__ = ["delivered"]

ROOT = Path(__file__).parents[1]
COMPOSE = "postgresql+asyncpg://accounts:accounts@127.0.0.1:5432/accounts"
SERVER = make_url(os.environ.get("TEST_DATABASE_URL") or COMPOSE).set(
    drivername="postgresql+asyncpg"
)


@pytest.fixture(scope="session")
def database_url() -> Iterator[str]:
    """The URL of a new database, made by the migrations. It is dropped at the end."""
    name = f"accounts_test_{uuid4().hex[:12]}"
    url = SERVER.set(database=name).render_as_string(hide_password=False)
    asyncio.run(on_server(f"CREATE DATABASE {name}"))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DATABASE_URL", url)
            command.upgrade(Config(ROOT / "alembic.ini"), "head")
        yield url
    finally:
        asyncio.run(on_server(f"DROP DATABASE {name} WITH (FORCE)"))


async def on_server(statement: str) -> None:
    """Run a statement outside a transaction, as CREATE DATABASE has to be."""
    engine = create_async_engine(SERVER, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    async with engine.connect() as connection:
        await connection.execute(text(statement))


@pytest.fixture
async def settings(database_url: str) -> Settings:
    """The settings of an application whose tables are empty."""
    engine = create_async_engine(database_url, poolclass=NullPool)
    async with engine.begin() as connection:
        for table in start_mappers().metadata.sorted_tables:
            await connection.execute(table.delete())
    return Settings(database_url=database_url)


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[FastAPI]:
    """The application. Its relay does not run: `await delivered()` delivers."""
    async with wired(settings) as app:
        yield app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as client:
        yield client


@pytest.fixture
async def relay(app: FastAPI) -> OutboxRelay:
    """The relay of the application, for `delivered`."""
    return await container_of(app).get(OutboxRelay)
