"""The eight tables, on the application's `MetaData`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import sqlalchemy
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
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

from postroom.capture.commit_order import Position
from postroom.columns import UtcDateTime, json_document, moment_column
from postroom.inbox.table import define_inbox
from postroom.record import Status

TABLE: Final = "outbox"
STORAGE: Final = "postroom storage parameters"
"""Where the `info` of a Table has its storage parameters."""
# Storage parameters of PostgreSQL. Claims and the clean-up pass over dead rows until a vacuum
# removes them: by default when 20 % are dead, most of a day's records if a week of them is kept.
VACUUM_OFTEN: Final[Mapping[str, float]] = {
    "autovacuum_vacuum_scale_factor": 0.01,
    "autovacuum_analyze_scale_factor": 0.02,
}
# A poll updates all rows of a worker. With room in the page, no update needs a new index entry.
ROOM_FOR_UPDATES: Final[Mapping[str, float]] = {"fillfactor": 30}


@dataclass(frozen=True, slots=True)
class OutboxTables:
    """The tables of one outbox."""

    records: Table
    leases: Table
    workers: Table
    blocked_keys: Table
    attempts: Table
    pauses: Table
    audit: Table
    inbox: Table

    def __iter__(self) -> Iterator[Table]:
        return (getattr(self, each.name) for each in fields(self))


def define_tables(metadata: MetaData, *, table: str, schema: str | None) -> OutboxTables:
    """Define the tables of an outbox on an application's MetaData."""
    return OutboxTables(
        records=_records(metadata, table, schema),
        leases=_leases(metadata, f"{table}_leases", schema),
        workers=_workers(metadata, f"{table}_workers", schema),
        blocked_keys=_blocked_keys(metadata, f"{table}_blocked_keys", schema),
        attempts=_attempts(metadata, f"{table}_attempts", schema),
        pauses=_pauses(metadata, f"{table}_pauses", schema),
        audit=_audit(metadata, f"{table}_audit", schema),
        inbox=define_inbox(metadata, f"{table}_inbox", schema),
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
        # Bounded, because an entry of an index is: 2,704 bytes on PostgreSQL.
        Column("aggregate_type", String(128)),
        Column("aggregate_id", String(512)),
        Column("partition", SmallInteger(), nullable=False),
        Column("payload", json_document(), nullable=False),
        Column("headers", json_document(), nullable=False, server_default=text("'{}'")),
        Column("status", String(16), nullable=False, server_default=Status.PENDING.value),
        Column("retry_count", Integer(), nullable=False, server_default=text("0")),
        Column("max_retries", Integer()),  # NULL: the relay's schedule decides
        Column("occurred_at", UtcDateTime(), nullable=False),
        moment_column("created_at"),
        moment_column("updated_at", onupdate=text("CURRENT_TIMESTAMP")),
        Column("published_at", UtcDateTime()),
        Column("error_message", Text()),
        # What a claim may take now, and when what it may not take comes back.
        Column("ready", Boolean(), nullable=False, server_default=text("true")),
        Column("due_at", UtcDateTime()),
        UniqueConstraint("id"),  # an event saved twice, after an ambiguous commit, is refused
        schema=schema,
        sqlite_autoincrement=True,
        comment="postroom: records, one for each event",
        **_storage(VACUUM_OFTEN),
    )
    # An index that changes gets a new name: the schema check compares names only.
    _partial_index(f"ix_{name}_ready", records, ("partition", "position"), "ready")
    due = ("partition", "due_at", "position")
    # A failed record keeps the time of its failure. One that is set back to pending by hand is
    # due at once.
    _partial_index(f"ix_{name}_due", records, due, "due_at IS NOT NULL AND status = 'pending'")
    # What waits behind a record of its key, waits for its time, or was given up on.
    held = "NOT ready AND status <> 'published'"
    _partial_index(f"ix_{name}_held", records, ("aggregate_id", "position"), held)
    # For operators; a record that is delivered never has an entry.
    _partial_index(f"ix_{name}_failed", records, ("position",), "status = 'failed'")
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
        # How many holders died in a row; the record that is delivered with care, by its id, how
        # many died while they did that, and whether it is in flight.
        Column("crash_count", Integer(), nullable=False, server_default=text("0")),
        Column("suspect", Uuid()),
        Column("suspect_crashes", Integer(), nullable=False, server_default=text("0")),
        Column("suspect_sent", Boolean(), nullable=False, server_default=text("false")),
        # The worker that held the lease when it last ran out, until that worker shows up again.
        Column("lost_by", Text()),
        schema=schema,
        comment="postroom: which worker holds the lease of which partition",
        **_storage(ROOM_FOR_UPDATES),
    )


def _workers(metadata: MetaData, name: str, schema: str | None) -> Table:
    return Table(
        name,
        metadata,
        Column("worker", String(255), primary_key=True),
        moment_column("started_at"),
        Column("seen_until", UtcDateTime(), nullable=False),
        # What the worker does, for operators; written with its heartbeat.
        Column("reported_at", UtcDateTime()),
        Column("report", json_document()),
        # An operator drains the worker: it takes no records until it is resumed.
        Column("draining", Boolean(), nullable=False, server_default=text("false")),
        schema=schema,
        comment="postroom: running workers, and their last reports",
        **_storage(ROOM_FOR_UPDATES),
    )


def _blocked_keys(metadata: MetaData, name: str, schema: str | None) -> Table:
    return Table(
        name,
        metadata,
        Column("aggregate_type", String(128), primary_key=True),
        Column("aggregate_id", String(512), primary_key=True),
        # The record that later records of the key wait for.
        Column("position", BigInteger(), nullable=False),
        moment_column("blocked_at"),
        schema=schema,
        comment="postroom: keys whose later records wait for an earlier one",
        **_storage({**VACUUM_OFTEN, "fillfactor": 50}),  # few rows are updated at a time
    )


def _attempts(metadata: MetaData, name: str, schema: str | None) -> Table:
    attempts = Table(
        name,
        metadata,
        _number_column(),
        Column("position", BigInteger(), nullable=False),
        moment_column("attempted_at"),
        Column("retry_count", Integer(), nullable=False),
        Column("verdict", String(16), nullable=False),
        Column("reason", Text(), nullable=False),
        Column("worker", Text(), nullable=False),
        Column("seconds", Float(), nullable=False),
        schema=schema,
        sqlite_autoincrement=True,
        comment="postroom: the last refusals of each record",
        **_storage(VACUUM_OFTEN),
    )
    Index(f"ix_{name}_position", attempts.c.position)
    return attempts


def _pauses(metadata: MetaData, name: str, schema: str | None) -> Table:
    return Table(
        name,
        metadata,
        # What is paused: records of an event type, of a key, or all; '' means any.
        Column("event_type", String(255), primary_key=True),
        Column("aggregate_type", String(128), primary_key=True),
        Column("aggregate_id", String(512), primary_key=True),
        moment_column("paused_at"),
        Column("operator", Text()),
        Column("host", Text()),
        Column("reason", Text()),
        schema=schema,
        comment="postroom: event types and keys that operators have paused",
    )


def _audit(metadata: MetaData, name: str, schema: str | None) -> Table:
    return Table(
        name,
        metadata,
        _number_column(),
        moment_column("changed_at"),
        Column("operator", Text(), nullable=False),
        Column("host", Text(), nullable=False),
        Column("action", String(32), nullable=False),
        Column("target", Text(), nullable=False),
        Column("records", Integer(), nullable=False),
        Column("details", json_document(), nullable=False, server_default=text("'{}'")),
        schema=schema,
        sqlite_autoincrement=True,
        comment="postroom: changes by operators",
    )


def _number_column() -> Column[Any]:
    number = BigInteger().with_variant(Integer(), "sqlite")  # there, else not generated
    return Column("id", number, Identity(), primary_key=True)


def _storage(parameters: Mapping[str, float]) -> dict[str, Any]:
    """Return the arguments of a Table that give it storage parameters on PostgreSQL."""
    info = {STORAGE: parameters}
    if not sqlalchemy.__version__.startswith("2.0."):
        return {"postgresql_with": dict(parameters), "info": info}
    # SQLAlchemy 2.0 has no argument for them, and writes this one into CREATE TABLE as it is.
    listed = ", ".join(f"{name} = {value}" for name, value in parameters.items())
    return {"postgresql_using": f"heap WITH ({listed})", "info": info}


def _partial_index(name: str, table: Table, columns: tuple[str, ...], where: str) -> None:
    condition = text(where)
    Index(
        name,
        *(table.c[column] for column in columns),
        postgresql_where=condition,
        sqlite_where=condition,
    )
