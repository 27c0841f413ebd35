"""The SQL statements that create, extend and drop the outbox tables."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Column, DefaultClause, Dialect, Index, Table
from sqlalchemy.schema import (
    DDL,
    CreateColumn,
    CreateIndex,
    CreateSchema,
    CreateTable,
    DropTable,
    ExecutableDDLElement,
    SetTableComment,
)

from postroom.tables.tables import OutboxTables


def create_all(tables: OutboxTables, dialect: Dialect) -> Iterator[ExecutableDDLElement]:
    """Create what is missing of an outbox, in a database that cannot be looked at."""
    schema = tables.records.schema
    if schema is not None and dialect.name != "sqlite":  # a schema of SQLite is an attached file
        yield CreateSchema(schema, if_not_exists=True)
    for table in tables:
        yield CreateTable(table, if_not_exists=True)
        if dialect.name != "sqlite":  # which has no ADD COLUMN IF NOT EXISTS
            yield _add_missing_columns(table, dialect)
        yield from _complete_table(table, dialect)


def create_table(table: Table, dialect: Dialect) -> Iterator[ExecutableDDLElement]:
    """Create a table with its indexes and its comment."""
    yield CreateTable(table)
    yield from _complete_table(table, dialect)


def _complete_table(table: Table, dialect: Dialect) -> Iterator[ExecutableDDLElement]:
    for index in indexes(table):
        yield CreateIndex(index, if_not_exists=True)
    if dialect.supports_comments and not dialect.inline_comments:
        yield SetTableComment(table)


def add_column(column: Column[Any], dialect: Dialect) -> ExecutableDDLElement:
    """Add a column to a table that may have rows."""
    return _alter(column.table, f"ADD COLUMN {_definition(column, dialect)}")


def _add_missing_columns(table: Table, dialect: Dialect) -> ExecutableDDLElement:
    """Add the columns that a table of an older postroom may lack."""
    columns = [column for column in table.columns if can_be_added(column, dialect)]
    definitions = [_definition(column, dialect) for column in columns]
    return _alter(table, ", ".join(f"ADD COLUMN IF NOT EXISTS {each}" for each in definitions))


def _definition(column: Column[Any], dialect: Dialect) -> str:
    return str(CreateColumn(column).compile(dialect=dialect))


def _alter(table: Table, change: str) -> ExecutableDDLElement:
    change = change.replace("%", "%%")
    alter = DDL(f"ALTER TABLE %(fullname)s {change}")  # type: ignore[no-untyped-call]
    return alter.against(table)


def can_be_added(column: Column[Any], dialect: Dialect) -> bool:
    """Whether existing rows get a value when the column is added: NULL, or its default."""
    default = column.server_default
    if column.nullable or not isinstance(default, DefaultClause):
        return column.nullable is True
    # SQLite adds no column whose default is not a constant to a table that has rows.
    return dialect.name != "sqlite" or str(default.arg) != "CURRENT_TIMESTAMP"


def drop_all(tables: OutboxTables) -> Iterator[ExecutableDDLElement]:
    """Drop the tables that exist. The schema stays, because it may hold other tables."""
    for table in tables:
        yield DropTable(table, if_exists=True)


def indexes(table: Table) -> list[Index]:
    """List the indexes of a table by name, so that the order is always the same."""
    return sorted(table.indexes, key=lambda index: str(index.name))
