"""Column types that mean the same on PostgreSQL and SQLite."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, Column, DateTime, Dialect, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator


class UtcDateTime(TypeDecorator[datetime]):
    """A moment: aware on the way in, UTC on the way out, also on SQLite, which keeps no zone."""

    impl = DateTime(timezone=True)
    cache_ok = True
    # Alembic writes `sa.` and the repr of a type from below `sqlalchemy.`. A migration must read
    # `sa.DateTime(timezone=True)`, and go on working without postroom.
    __module__ = "sqlalchemy.types"

    def __repr__(self) -> str:
        return "DateTime(timezone=True)"

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse a moment that may be any of 24 hours."""
        if value is not None and value.utcoffset() is None:
            raise ValueError(f"{value!r} has no time zone. Use datetime.now(UTC).")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give SQLite's moments the zone that they were stored in."""
        if value is None or value.tzinfo is not None:
            return value
        return value.replace(tzinfo=UTC)


class _Jsonb(JSONB):
    # Autogenerate on SQLite writes the repr: JSONB's own has a `Text` that no migration imports.
    __module__ = JSONB.__module__

    def __repr__(self) -> str:
        return "JSONB()"


def json_document() -> Any:
    """JSONB on PostgreSQL, JSON text on SQLite."""
    return JSON().with_variant(_Jsonb(), "postgresql")


def moment_column(name: str, **options: Any) -> Column[object]:
    """Define a column with the moment of the insert."""
    now = text("CURRENT_TIMESTAMP")
    return Column(name, UtcDateTime(), nullable=False, server_default=now, **options)
