"""How Alembic gets at the database: by the settings of the application."""

import asyncio

import postroom.integrations.alembic  # noqa: F401  a clean check on SQLite
from alembic import context
from sqlalchemy import Connection

from messaging.database import make_engine
from messaging.models import Base
from messaging.settings import Settings


def migrate(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=Base.metadata)
    with context.begin_transaction():
        context.run_migrations()


async def run() -> None:
    engine = make_engine(Settings.load().database_url, patient=True)
    async with engine.connect() as connection:
        await connection.run_sync(migrate)
    await engine.dispose()


asyncio.run(run())
