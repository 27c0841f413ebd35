"""The PostgreSQL server: settings, clock, other sessions."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import text

from postroom.inspection.reading import Reader, time_of

SETTINGS: Final = (
    *("autovacuum", "track_counts", "autovacuum_max_workers", "max_connections"),
    *("superuser_reserved_connections", "idle_session_timeout", "transaction_timeout"),
    *("default_transaction_read_only", "server_version_num", "server_version"),
)
SERVER: Final = text(f"""SELECT quote_ident(current_user) AS role,
        pg_is_in_recovery() AS is_standby,
        (SELECT count(*) FROM pg_stat_activity
            WHERE backend_type = 'autovacuum worker') AS vacuums,
        (SELECT CAST(json_object_agg(name, setting) AS text) FROM pg_settings
            WHERE name IN ({", ".join(f"'{each}'" for each in SETTINGS)})) AS settings""")
CLOCK: Final = text("SELECT clock_timestamp() AS now")
# Of other roles' connections the type is NULL, unless this role may read all statistics.
CLIENT: Final = (
    "coalesce(backend_type, 'client backend') = 'client backend' AND usename IS NOT NULL"
)
# Transactions of other databases do not hold back the vacuum of this one's tables.
TRANSACTIONS: Final = text(f"""SELECT pid, usename, application_name, state, query,
        extract(epoch FROM clock_timestamp() - xact_start) AS seconds
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND {CLIENT}
        AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    ORDER BY xact_start LIMIT 100""")
PREPARED: Final = text("""SELECT gid, owner,
        extract(epoch FROM clock_timestamp() - prepared) AS seconds
    FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 100""")
SLOTS: Final = text("""SELECT slot_name, slot_type, active, xmin IS NOT NULL AS holds_rows,
        CASE WHEN NOT pg_is_in_recovery() AND restart_lsn IS NOT NULL
            THEN pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) ELSE 0 END AS wal_bytes
    FROM pg_replication_slots ORDER BY slot_name LIMIT 100""")
CONNECTIONS: Final = text(f"""SELECT r.rolconnlimit AS role_limit, d.datconnlimit AS database_limit,
        r.rolsuper AS is_superuser, used, used_by_role, used_by_database,
        CAST(current_setting('max_connections') AS integer)
            - CAST(current_setting('superuser_reserved_connections') AS integer) AS server_limit
    FROM pg_roles r, pg_database d, (SELECT count(*) AS used,
            count(*) FILTER (WHERE usename = current_user) AS used_by_role,
            count(*) FILTER (WHERE datname = current_database()) AS used_by_database
        FROM pg_stat_activity WHERE {CLIENT}) AS activity
    WHERE r.rolname = current_user AND d.datname = current_database()""")
COMMENTS: Final = re.compile(r"/\*.*?\*/")
TEXTS: Final = re.compile(r"('|\$(?!\d)|--|/\*).*")
"""From the first text on, or the first comment that does not end."""
NUMBERS: Final = re.compile(r"(?<![\w$])\d[\w.]*")
LONGEST_QUERY: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The server, as the current role sees it."""

    role: str
    """Quoted for SQL."""
    is_standby: bool
    vacuums: int
    """Autovacuum workers that are at work now."""
    settings: Mapping[str, str]
    """Durations in milliseconds; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFacts:
    """An open transaction of another connection, which no vacuum can pass."""

    pid: int
    user: str | None
    application: str | None
    state: str | None
    age: timedelta | None
    """None if the current role may not see it."""
    query: str
    """The beginning of its last statement, without values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedFacts:
    """A transaction that is prepared (two-phase commit), and waits for its end."""

    name: str
    owner: str
    age: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFacts:
    """A replication slot."""

    name: str
    kind: str
    active: bool
    holds_rows: bool
    """Whether it holds back the vacuum of tables."""
    wal_bytes: int
    """The WAL that the server keeps for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimit:
    """How many connections there may be, and how many there are."""

    what: str
    """Whose limit it is: the server's, the database's, the role's."""
    limit: int
    used: int


async def read_server(reader: Reader) -> ServerFacts:
    """Return the server's settings."""
    async with reader.ask("the server's settings") as run:
        [row] = await run(SERVER)
    return ServerFacts(
        role=row.role,
        is_standby=row.is_standby,
        vacuums=row.vacuums,
        settings=json.loads(row.settings),
    )


async def read_clock(reader: Reader) -> timedelta:
    """Return how far the server's clock is ahead of this machine's, beyond what cannot be told."""
    async with reader.ask("the server's clock") as run:
        await run(CLOCK)  # the first statement may take longer
        before = datetime.now(UTC)
        [row] = await run(CLOCK)
        after = datetime.now(UTC)
    now = time_of(row.now)
    return now - after if now > after else min(now - before, timedelta())


async def read_transactions(reader: Reader) -> tuple[TransactionFacts, ...]:
    """Return the open transactions of others, the oldest first."""
    async with reader.ask("open transactions") as run:
        return tuple(map(_transaction, await run(TRANSACTIONS)))


async def read_prepared(reader: Reader) -> tuple[PreparedFacts, ...]:
    """Return prepared transactions, the oldest first."""
    async with reader.ask("prepared transactions") as run:
        rows = await run(PREPARED)
    return tuple(
        PreparedFacts(name=row.gid, owner=row.owner, age=timedelta(seconds=float(row.seconds)))
        for row in rows
    )


async def read_slots(reader: Reader) -> tuple[SlotFacts, ...]:
    """Return the replication slots."""
    async with reader.ask("replication slots") as run:
        rows = await run(SLOTS)
    return tuple(
        SlotFacts(
            name=row.slot_name,
            kind=row.slot_type,
            active=row.active,
            holds_rows=row.holds_rows,
            wal_bytes=int(row.wal_bytes),
        )
        for row in rows
    )


async def read_connections(reader: Reader) -> tuple[ConnectionLimit, ...]:
    """Return the limits that apply to the current role."""
    async with reader.ask("the connections") as run:
        [row] = await run(CONNECTIONS)
    server = ConnectionLimit(what="the server", limit=row.server_limit, used=row.used)
    if row.is_superuser:
        return (server,)
    database = ConnectionLimit(
        what="the database", limit=row.database_limit, used=row.used_by_database
    )
    role = ConnectionLimit(what="the role", limit=row.role_limit, used=row.used_by_role)
    return tuple(each for each in (server, database, role) if each.limit >= 0)  # -1: none


def without_values(statement: str) -> str:
    """Return the beginning of a statement, up to the first text in it, without numbers."""
    begin = TEXTS.sub("…", COMMENTS.sub("", " ".join(statement.split())))
    begin = NUMBERS.sub("?", begin.strip())
    return begin if len(begin) <= LONGEST_QUERY else f"{begin[: LONGEST_QUERY - 1]}…"


def _transaction(row: Any) -> TransactionFacts:
    return TransactionFacts(
        pid=row.pid,
        user=row.usename,
        application=row.application_name or None,
        state=row.state,
        age=None if row.seconds is None else timedelta(seconds=float(row.seconds)),
        query="" if row.seconds is None else without_values(row.query or ""),
    )
