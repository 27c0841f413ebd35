"""What an application's env.py says; each test hands in what is its own with the Config."""

from typing import Any

from alembic import context
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

import postroom.integrations.alembic  # noqa: F401

url = context.config.attributes["url"]
options = context.config.attributes["options"]


def run(**target: Any) -> None:
    context.configure(**target, **options)
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    run(url=url, literal_binds=True)
else:
    with create_engine(url, poolclass=NullPool).connect() as connection:
        run(connection=connection)
