"""Runs the migrations on the database that the application's settings name."""

import asyncio

from alembic import context
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from family.infrastructure.outbox import outbox
from family.settings import DatabaseSettings


def migrate(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=outbox.metadata,
        include_schemas=True,
        include_name=lambda name, kind, _: kind != "schema" or name == outbox.metadata.schema,
    )
    with context.begin_transaction():
        context.run_migrations()


async def main() -> None:
    engine = create_async_engine(DatabaseSettings.load().database, hide_parameters=True)
    async with engine.connect() as connection:
        await connection.run_sync(migrate)
    await engine.dispose()


asyncio.run(main())
