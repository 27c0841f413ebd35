"""The statements that create the tables, and those that mend them."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Column, DefaultClause, Dialect, Index, Table, TextClause
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

from postroom.store.table import OutboxTables


def create_all(tables: OutboxTables, dialect: Dialect) -> Iterator[ExecutableDDLElement]:
    """Create everything, for a database where nothing is there yet."""
    schema = tables.records.schema
    if schema is not None and dialect.name != "sqlite":  # there a schema is a file, attached
        yield CreateSchema(schema, if_not_exists=True)
    for table in tables:
        yield from create_table(table, dialect)


def create_table(table: Table, dialect: Dialect) -> Iterator[ExecutableDDLElement]:
    """Create a table with all that belongs to it."""
    yield CreateTable(table)
    for index in indexes(table):
        yield CreateIndex(index)
    if dialect.supports_comments and not dialect.inline_comments:
        yield SetTableComment(table)


def can_be_added(column: Column[Any], dialect: Dialect) -> bool:
    """Tell whether the rows that are there can do without a value that only a person knows."""
    default = server_default(column)
    # SQLite refuses a default that is not a constant as soon as the table has rows.
    constant = default is not None and (dialect.name != "sqlite" or "CURRENT" not in default)
    return column.nullable is True or constant


def add_column(column: Column[Any], dialect: Dialect) -> ExecutableDDLElement:
    """Add a column to a table that may have rows."""
    definition = str(CreateColumn(column).compile(dialect=dialect)).replace("%", "%%")
    add = DDL(f"ALTER TABLE %(fullname)s ADD COLUMN {definition}")  # type: ignore[no-untyped-call]
    return add.against(column.table)


def drop_all(tables: OutboxTables) -> Iterator[ExecutableDDLElement]:
    """Drop what is there of the tables; the schema may be home to others, and stays."""
    for table in tables:
        yield DropTable(table, if_exists=True)


def indexes(table: Table) -> list[Index]:
    """List the indexes of a table, always in the same order."""
    return sorted(table.indexes, key=lambda index: str(index.name))


def server_default(column: Column[Any]) -> str | None:
    """Give a column's default as SQL; identities and computed columns have none."""
    default = column.server_default
    if not isinstance(default, DefaultClause):
        return None
    return default.arg.text if isinstance(default.arg, TextClause) else f"'{default.arg}'"
