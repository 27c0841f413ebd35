"""The INSERT of `outbox.save`: all records of a call in one statement. Pure.

On PostgreSQL the records go as one JSON text, whatever their number. A driver needs no codec for
their values then, and codecs that the application has set on its connection change nothing.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    JSON,
    ColumnElement,
    Dialect,
    Insert,
    Integer,
    Table,
    Text,
    bindparam,
    cast,
    column,
    func,
    insert,
    make_url,
    select,
)
from sqlalchemy.sql.compiler import SQLCompiler

from postroom.capture.commit_order import LockedPositions, stripes_of
from postroom.record import OutboxRecord

# What capture decides. The rest has defaults in the database.
GIVEN: Final = (
    *("id", "event_type", "event_version", "aggregate_type", "aggregate_id", "partition"),
    *("payload", "headers", "max_retries", "occurred_at", "ready", "due_at"),
)
_PLACE: Final = "place"  # of a record among those of its call


class RecordInsertion:
    """Builds the INSERT into the table of one outbox, and its parameters."""

    def __init__(self, table: Table, *, lock_keys: bool) -> None:
        self._table = table
        self._lock_keys = lock_keys

    def for_sqlalchemy(
        self, dialect: Dialect, records: Sequence[OutboxRecord]
    ) -> tuple[Insert, Any]:
        """Give the statement for a connection of SQLAlchemy, and its parameters."""
        if dialect.name == "postgresql":
            return self._from_json, self._parameters(records)
        return insert(self._table), [_row(record) for record in records]

    def for_asyncpg(self, records: Sequence[OutboxRecord]) -> tuple[Any, ...]:
        """Give the statement for a connection of asyncpg, and its parameters in their order."""
        sql, names = self._asyncpg_sql
        parameters = self._parameters(records)
        return sql, *(parameters[name] for name in names)

    def for_psycopg(self, records: Sequence[OutboxRecord]) -> tuple[bytes, dict[str, Any]]:
        """Give the statement for a connection of psycopg, and its parameters by name."""
        return self._psycopg_sql, self._parameters(records)

    def _parameters(self, records: Sequence[OutboxRecord]) -> dict[str, Any]:
        rows = [
            {name: _plain(value) for name, value in _row(record).items()} | {_PLACE: place}
            for place, record in enumerate(records)
        ]
        # In ASCII, which every client encoding has.
        parameters: dict[str, Any] = {"records": json.dumps(rows, allow_nan=False)}
        if self._lock_keys:
            parameters["stripes"] = sorted(stripes_of(records))
        return parameters

    @cached_property
    def _asyncpg_sql(self) -> tuple[str, Sequence[str]]:
        compiled = self._compiled("asyncpg")
        return str(compiled), compiled.positiontup or ()

    @cached_property
    def _psycopg_sql(self) -> bytes:
        return str(self._compiled("psycopg")).encode()

    def _compiled(self, driver: str) -> SQLCompiler:
        dialect = make_url(f"postgresql+{driver}://").get_dialect()()  # imports no driver
        return self._from_json.compile(dialect=dialect)

    @cached_property
    def _from_json(self) -> Insert:
        texts = cast(bindparam("records", type_=Text), JSON)
        given = func.json_to_recordset(texts).table_valued(
            *(column(name, self._table.c[name].type) for name in GIVEN),
            column(_PLACE, Integer),
        )
        given = given.render_derived("given", with_types=True)
        row: Mapping[str, ColumnElement[Any]] = {name: given.c[name] for name in GIVEN}
        if self._lock_keys:
            stripes = bindparam("stripes", type_=ARRAY(Integer))
            row = {"position": LockedPositions(stripes), **row}
        rows = select(*row.values()).order_by(given.c[_PLACE])
        return insert(self._table).from_select(list(row), rows)


def _row(record: OutboxRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in GIVEN} | {"ready": record.due_at is None}


def _plain(value: Any) -> Any:
    match value:
        case UUID():
            return str(value)
        case datetime():
            return value.astimezone(UTC).isoformat()
    return value
