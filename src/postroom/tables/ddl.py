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
    """Create the schema and all tables of an outbox, in a database that has no table of them."""
    schema = tables.records.schema
    if schema is not None and dialect.name != "sqlite":  # a schema of SQLite is an attached file
        yield CreateSchema(schema, if_not_exists=True)
    for table in tables:
        yield from create_table(table, dialect)


def create_table(table: Table, dialect: Dialect) -> Iterator[ExecutableDDLElement]:
    """Create a table with its indexes and its comment."""
    yield CreateTable(table)
    for index in indexes(table):
        yield CreateIndex(index)
    if dialect.supports_comments and not dialect.inline_comments:
        yield SetTableComment(table)


def add_column(column: Column[Any], dialect: Dialect) -> ExecutableDDLElement:
    """Add a column to a table that may have rows."""
    definition = str(CreateColumn(column).compile(dialect=dialect)).replace("%", "%%")
    add = DDL(f"ALTER TABLE %(fullname)s ADD COLUMN {definition}")  # type: ignore[no-untyped-call]
    return add.against(column.table)


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
