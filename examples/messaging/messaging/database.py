"""The engine, and what SQLite needs."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, event, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.types import TypeDecorator

DRIVERS = {"postgresql": "postgresql+asyncpg", "sqlite": "sqlite+aiosqlite"}
PATIENCE = {"timeout": 10, "command_timeout": 15}
"""Seconds for a connection, and for a statement of a request."""
TURN = {"timeout": 15}
"""Seconds that a transaction waits for its turn: SQLite has one writer at a time."""


def make_engine(url: str, *, patient: bool = False) -> AsyncEngine:
    """Make the engine. A URL need not name the driver; errors do not contain values of rows.

    - `patient`: let a statement take its time, as a migration may; a request may not
    """
    address = make_url(url)
    address = address.set(drivername=DRIVERS.get(address.drivername, address.drivername))
    is_postgresql = address.get_backend_name() == "postgresql"
    limits = ({} if patient else PATIENCE) if is_postgresql else TURN
    engine = create_async_engine(
        address, hide_parameters=True, pool_pre_ping=True, connect_args=limits
    )
    if not is_postgresql:
        _lock_at_begin(engine)
    return engine


def _lock_at_begin(engine: AsyncEngine) -> None:
    # A transaction that reads, and writes when somebody else has written, is refused by SQLite.
    # One that takes the lock before it reads waits for its turn instead.
    @event.listens_for(engine.sync_engine, "connect")
    def leave_begin_to_us(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine.sync_engine, "begin")
    def begin_immediate(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


class UtcDateTime(TypeDecorator[datetime]):
    """A moment, in UTC; SQLite would forget the zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value and value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value and (value if value.tzinfo else value.replace(tzinfo=UTC))
