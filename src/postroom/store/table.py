"""The tables: the outbox on the application's own MetaData, and its companions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Identity,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)

from postroom.record import Status
from postroom.store.order import Position
from postroom.store.types import UtcDateTime, json_document


@dataclass(frozen=True, slots=True)
class OutboxTables:
    """The tables of one outbox."""

    records: Table
    leases: Table
    blocked_keys: Table

    def __iter__(self) -> Iterator[Table]:
        return iter((self.records, self.leases, self.blocked_keys))


def define_tables(metadata: MetaData, *, table: str, schema: str | None) -> OutboxTables:
    """Define the tables of an outbox on an application's MetaData."""
    return OutboxTables(
        records=_records(metadata, table, schema),
        leases=_leases(metadata, f"{table}_leases", schema),
        blocked_keys=_blocked_keys(metadata, f"{table}_blocked_keys", schema),
    )


def _records(metadata: MetaData, name: str, schema: str | None) -> Table:
    records = Table(
        name,
        metadata,
        # The order. Never a clock: those are of several machines, and equal in a transaction.
        Column("position", Position(), Identity(), primary_key=True),
        Column("id", Uuid(), nullable=False),
        Column("event_type", String(255), nullable=False),
        Column("event_version", Integer(), nullable=False, server_default=text("1")),
        Column("aggregate_type", Text()),
        Column("aggregate_id", Text()),
        Column("partition", SmallInteger(), nullable=False),
        Column("payload", json_document(), nullable=False),
        Column("headers", json_document(), nullable=False, server_default=text("'{}'")),
        Column("status", String(16), nullable=False, server_default=Status.PENDING.value),
        Column("retry_count", Integer(), nullable=False, server_default=text("0")),
        Column("max_retries", Integer()),  # NULL: the relay's schedule decides
        Column("occurred_at", UtcDateTime(), nullable=False),
        _moment("created_at"),
        _moment("updated_at", onupdate=text("CURRENT_TIMESTAMP")),
        Column("published_at", UtcDateTime()),
        Column("error_message", Text()),
        # What a claim may take now, and when what it may not take comes back.
        Column("ready", Boolean(), nullable=False, server_default=text("true")),
        Column("due_at", UtcDateTime()),
        UniqueConstraint("id"),  # an event saved twice, after an ambiguous commit, is refused
        schema=schema,
        sqlite_autoincrement=True,
        comment="postroom: events on their way",
    )
    _partial_index(f"ix_{name}_ready", records, ("partition", "position"), "ready")
    _partial_index(f"ix_{name}_due", records, ("partition", "due_at"), "due_at IS NOT NULL")
    return records


def _leases(metadata: MetaData, name: str, schema: str | None) -> Table:
    return Table(
        name,
        metadata,
        Column("partition", SmallInteger(), primary_key=True, autoincrement=False),
        Column("token", BigInteger(), nullable=False, server_default=text("0")),
        Column("worker", Text()),
        Column("leased_until", UtcDateTime()),
        Column("served_at", UtcDateTime()),
        Column("crash_count", Integer(), nullable=False, server_default=text("0")),
        Column("suspect_id", Uuid()),
        schema=schema,
        comment="postroom: which worker serves which partition",
    )


def _blocked_keys(metadata: MetaData, name: str, schema: str | None) -> Table:
    return Table(
        name,
        metadata,
        Column("aggregate_type", Text(), primary_key=True),
        Column("aggregate_id", Text(), primary_key=True),
        Column("record_id", Uuid(), nullable=False),
        _moment("blocked_at"),
        schema=schema,
        comment="postroom: keys that wait for a record's retry or repair",
    )


def _moment(name: str, **options: Any) -> Column[object]:
    now = text("CURRENT_TIMESTAMP")
    return Column(name, UtcDateTime(), nullable=False, server_default=now, **options)


def _partial_index(name: str, table: Table, columns: tuple[str, ...], where: str) -> None:
    condition = text(where)
    Index(
        name,
        *(table.c[column] for column in columns),
        postgresql_where=condition,
        sqlite_where=condition,
    )
