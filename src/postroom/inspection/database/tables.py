"""The outbox tables on PostgreSQL: their rows, their size, their vacuum, their indexes."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from sqlalchemy import text

from postroom.database.database import as_rows, translated
from postroom.inspection.reading import Reader, time_or_none
from postroom.tables.script import plain_dialect
from postroom.tables.tables import OutboxTables

NAMES: Final = "json_to_recordset(CAST(:names AS json)) AS names(name text)"
TABLES: Final = text(f"""SELECT names.name,
        c.relrowsecurity AND row_security_active(c.oid) AS hides_rows,
        coalesce(s.n_live_tup, 0) AS live_rows, coalesce(s.n_dead_tup, 0) AS dead_rows,
        coalesce(s.n_mod_since_analyze, 0) AS changes,
        greatest(s.last_vacuum, s.last_autovacuum) AS vacuumed_at,
        greatest(s.last_analyze, s.last_autoanalyze) AS analyzed_at,
        pg_relation_size(c.oid) AS bytes, pg_indexes_size(c.oid) AS index_bytes,
        CAST(array_to_json(c.reloptions) AS text) AS options,
        CAST(array_to_json(toast.reloptions) AS text) AS toast_options
    FROM {NAMES}
    JOIN pg_class c ON c.oid = to_regclass(names.name)
    LEFT JOIN pg_class toast ON toast.oid = c.reltoastrelid
    LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid ORDER BY names.name""")
INDEXES: Final = text(f"""SELECT names.name AS table_name, c.relname AS name,
        CAST(CAST(i.indexrelid AS regclass) AS text) AS quoted, i.indisvalid AS is_valid,
        greatest(c.reltuples, 0) AS entries, pg_relation_size(c.oid) AS bytes,
        EXISTS (SELECT 1 FROM pg_stat_progress_create_index p
            WHERE p.index_relid = c.oid) AS is_building
    FROM {NAMES}
    JOIN pg_index i ON i.indrelid = to_regclass(names.name)
    JOIN pg_class c ON c.oid = i.indexrelid ORDER BY c.relname""")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """A table, as PostgreSQL's statistics describe it."""

    name: str
    """With its schema if it has one, quoted for SQL."""
    live_rows: int
    dead_rows: int
    """Rows that a vacuum has to remove."""
    changes: int
    """Rows that were changed since the last ANALYZE."""
    bytes: int
    index_bytes: int
    vacuumed_at: datetime | None
    analyzed_at: datetime | None
    options: Mapping[str, str]
    """Storage parameters; those of the TOAST table begin with `toast.`."""
    hides_rows: bool
    """Whether row level security applies to the current role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFacts:
    """An index of one of the tables."""

    name: str
    quoted: str
    """With its schema if need be, quoted for SQL."""
    table: str
    is_valid: bool
    is_building: bool
    """Whether CREATE INDEX or REINDEX is at work on it."""
    entries: int
    """As of the last vacuum."""
    bytes: int


async def read_tables(reader: Reader) -> tuple[TableFacts, ...]:
    """Return the tables that there are."""
    async with reader.ask("the tables' statistics") as run:
        return tuple(map(_table, await run(TABLES, names=_names(reader))))


async def read_indexes(reader: Reader) -> tuple[IndexFacts, ...]:
    """Return all indexes of the tables, also the application's own."""
    async with reader.ask("the indexes") as run:
        return tuple(map(_index, await run(INDEXES, names=_names(reader))))


def table_names(reader: Reader) -> dict[str, str]:
    """Return the tables' names, quoted for SQL, by what postroom calls the tables."""
    engine, preparer = reader.database.engine, plain_dialect("postgresql").identifier_preparer
    return {
        kind.name: preparer.format_table(translated(engine, table))
        for kind, table in zip(fields(OutboxTables), reader.outbox.tables, strict=True)
    }


def _names(reader: Reader) -> str:
    return as_rows({"name": name} for name in table_names(reader).values())


def _table(row: Any) -> TableFacts:
    options = dict(_options(row.options))
    options |= {f"toast.{name}": value for name, value in _options(row.toast_options)}
    return TableFacts(
        name=row.name,
        live_rows=row.live_rows,
        dead_rows=row.dead_rows,
        changes=row.changes,
        bytes=row.bytes,
        index_bytes=row.index_bytes,
        vacuumed_at=time_or_none(row.vacuumed_at),
        analyzed_at=time_or_none(row.analyzed_at),
        options=options,
        hides_rows=row.hides_rows,
    )


def _options(listed: str | None) -> Iterator[tuple[str, str]]:
    """Read storage parameters, which PostgreSQL keeps as `name=value`."""
    for each in json.loads(listed or "[]"):
        name, _, value = each.partition("=")
        yield name, value


def _index(row: Any) -> IndexFacts:
    return IndexFacts(
        name=row.name,
        quoted=row.quoted,
        table=row.table_name,
        is_valid=row.is_valid,
        is_building=row.is_building,
        entries=int(row.entries),
        bytes=row.bytes,
    )
