"""Which store an engine needs."""

from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.errors import ConfigurationError
from postroom.store.base import Store
from postroom.store.gates import no_shift
from postroom.store.postgres import PostgresStore
from postroom.store.sqlite import SQLiteStore
from postroom.store.table import OutboxTables

STORES: dict[str, type[PostgresStore | SQLiteStore]] = {
    "postgresql": PostgresStore,
    "sqlite": SQLiteStore,
}


def store_for(
    engine: AsyncEngine,
    tables: OutboxTables,
    *,
    keep_delivered: bool = True,
    shift: Callable[[], timedelta] = no_shift,
) -> Store:
    """Make the store of an outbox in the database of an engine. Does no I/O."""
    if not isinstance(engine, AsyncEngine):
        raise ConfigurationError(
            f"the relay needs an AsyncEngine, not {type(engine).__name__}. Make one beside your"
            " own with create_async_engine(…) and the same URL, with asyncpg or aiosqlite."
        )
    store = STORES.get(engine.dialect.name)
    if store is None:
        raise ConfigurationError(
            f"postroom has no store for {engine.dialect.name}. It knows {', '.join(STORES)}."
        )
    return store(engine, tables, keep_delivered=keep_delivered, shift=shift)


def with_own_pool(engine: AsyncEngine) -> AsyncEngine:
    """Give an engine like this one with connections of its own.

    Handlers may use up the application's; the relay could not renew its leases then, and others
    would run the same handlers.
    """
    own = Engine(engine.pool.recreate(), engine.dialect, engine.url, hide_parameters=True)
    return AsyncEngine(own)
