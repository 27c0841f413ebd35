"""The checks of the database: which facts are read, and which function judges them."""

from collections.abc import Iterable
from datetime import timedelta
from shlex import quote
from typing import Final

from postroom.doctor import privileges, server, sqlite, tables
from postroom.doctor.finding import Check, Finding
from postroom.inspection.database.privileges import read_privileges
from postroom.inspection.database.server import (
    read_clock,
    read_prepared,
    read_server,
    read_slots,
    read_transactions,
)
from postroom.inspection.database.sqlite import is_locked, read_errors, read_file
from postroom.inspection.database.tables import read_indexes, read_tables, table_names
from postroom.inspection.reading import Reader
from postroom.tables.check import schema_drift
from postroom.tables.ddl import indexes
from postroom.tables.tables import STORAGE

SUBJECT: Final = "database"
LOCK_WAIT: Final = 2.0
"""Seconds to wait for SQLite's write lock."""
Findings = Iterable[Finding]


def schema_check(reader: Reader) -> Check:
    """Return the check of the tables' definition, on either database."""

    async def drift() -> Findings:
        engine = reader.database.engine
        async with engine.connect() as connection:
            found = await connection.run_sync(schema_drift, reader.outbox.tables)
        is_postgres = engine.dialect.name == "postgresql"
        client = (
            'psql "$DATABASE_URL"' if is_postgres else f"sqlite3 {quote(str(engine.url.database))}"
        )
        return tables.judge_drift(found, client)

    return Check(SUBJECT, "schema", drift)


def postgres_checks(reader: Reader, transaction_limit: timedelta) -> list[Check]:
    """Return the checks of a PostgreSQL server and of the tables in it."""

    async def settings() -> Findings:
        return server.judge_server(await read_server(reader))

    async def clock() -> Findings:
        return server.judge_clock(await read_clock(reader))

    async def rights() -> Findings:
        return privileges.judge_privileges(await read_privileges(reader))

    async def used_indexes() -> Findings:
        own = {str(each.name) for table in reader.outbox.tables for each in indexes(table)}
        return tables.judge_indexes(await read_indexes(reader), own)

    async def storage() -> Findings:
        return tables.judge_storage(await read_tables(reader), _storage_parameters(reader))

    async def autovacuum() -> Findings:
        return tables.judge_autovacuum(await read_server(reader), await read_tables(reader))

    async def dead_rows() -> Findings:
        return tables.judge_dead_rows(await read_server(reader), await read_tables(reader))

    async def statistics() -> Findings:
        return tables.judge_statistics(await read_tables(reader))

    async def transactions() -> Findings:
        role = (await read_server(reader)).role
        return server.judge_transactions(await read_transactions(reader), role, transaction_limit)

    async def prepared() -> Findings:
        return server.judge_prepared(await read_prepared(reader), transaction_limit)

    async def slots() -> Findings:
        return server.judge_slots(await read_slots(reader))

    return [
        Check(SUBJECT, "server", settings),
        Check(SUBJECT, "clock", clock),
        Check(SUBJECT, "permissions", rights),
        Check(SUBJECT, "indexes", used_indexes),
        Check(SUBJECT, "storage", storage),
        Check(SUBJECT, "autovacuum", autovacuum),
        Check(SUBJECT, "dead rows", dead_rows),
        Check(SUBJECT, "statistics", statistics),
        Check(SUBJECT, "transactions", transactions),
        Check(SUBJECT, "prepared", prepared),
        Check(SUBJECT, "slots", slots),
    ]


def sqlite_checks(reader: Reader) -> list[Check]:
    """Return the checks of a SQLite file."""

    async def file() -> Findings:
        return sqlite.judge_file(await read_file(reader))

    async def soundness() -> Findings:
        path = reader.database.engine.url.database or ""
        return sqlite.judge_errors(await read_errors(reader), path)

    async def write_lock() -> Findings:
        path = (await read_file(reader)).path
        return sqlite.judge_lock(await is_locked(path, LOCK_WAIT), LOCK_WAIT)

    return [
        Check(SUBJECT, "file", file),
        Check(SUBJECT, "soundness", soundness),
        Check(SUBJECT, "write lock", write_lock),
    ]


def _storage_parameters(reader: Reader) -> dict[str, dict[str, float]]:
    """Return the storage parameters that postroom defines, by the table's name in SQL."""
    names = table_names(reader).values()
    return {
        name: dict(table.info.get(STORAGE, {}))
        for name, table in zip(names, reader.outbox.tables, strict=True)
    }
