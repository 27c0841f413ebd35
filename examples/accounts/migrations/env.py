"""Runs the migrations on the database of the application's settings."""

import asyncio

import postroom.integrations.alembic  # noqa: F401  a clean check on SQLite
from alembic import context
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from accounts.mapping import start_mappers
from accounts.settings import Settings

metadata = start_mappers().metadata
url = Settings.load().database_url


def run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()


def write_sql() -> None:
    """Print the statements, without a database: `alembic upgrade head --sql`."""
    context.configure(url=url, target_metadata=metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()


async def migrate() -> None:
    engine = create_async_engine(url, hide_parameters=True, poolclass=NullPool)
    async with engine.connect() as connection:
        await connection.run_sync(run)


if context.is_offline_mode():
    write_sql()
else:
    asyncio.run(migrate())
