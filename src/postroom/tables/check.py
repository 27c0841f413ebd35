"""Checks the outbox tables of a database against their definition; creates and upgrades them.

The check compares what the outbox needs to work: tables, columns, NOT NULL, index names, the unique
id and the generated position. Types, defaults and the columns of indexes are left to Alembic.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL, Column, Connection, MetaData, Table, inspect, select
from sqlalchemy.engine.interfaces import ReflectedColumn, ReflectedIndex
from sqlalchemy.schema import CreateIndex, CreateSchema, ExecutableDDLElement

from postroom.errors import SchemaError
from postroom.tables.ddl import add_column, can_be_added, create_table, indexes
from postroom.tables.tables import TABLE, OutboxTables

AUTOGENERATE = "`alembic revision --autogenerate` writes the migration."


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference, as a sentence. `repair` is None where a person has to decide."""

    text: str
    repair: tuple[ExecutableDDLElement, ...] | None = None


def check_schema(connection: Connection, tables: OutboxTables) -> None:
    """Raise SchemaError, which lists every drift, if the tables differ from their definition."""
    if drift := schema_drift(connection, tables):
        raise SchemaError(drift)


def schema_drift(connection: Connection, tables: OutboxTables) -> list[str]:
    """List the differences that the outbox cannot work with, a sentence each.

    Columns and indexes that the application added are no drift, if rows can still be inserted.
    """
    return [drift.text for drift in compare(connection, tables)]


def compare(connection: Connection, tables: OutboxTables) -> list[Drift]:
    """List the same differences, each with the statements that repair it."""
    return list(_Comparison(connection, tables).drift())


def upgrade_schema(connection: Connection, tables: OutboxTables) -> None:
    """Create the schema, tables, columns and indexes that are missing.

    Raises SchemaError, and changes nothing, for a drift that only a person can repair.
    """
    drift = compare(connection, tables)
    if by_hand := [each.text for each in drift if each.repair is None]:
        raise SchemaError(by_hand)
    for each in drift:
        for statement in each.repair or ():
            connection.execute(statement)


class _Comparison:
    """Compares the tables of one outbox with those of a database."""

    def __init__(self, connection: Connection, tables: OutboxTables) -> None:
        self.connection, self.tables = connection, tables
        self.dialect, self.records = connection.dialect, tables.records
        self.schema = connection.schema_for_object(tables.records)
        self.place = _place(connection.engine.url)
        argument = f', schema="{self.schema}"' if self.schema else ""
        self.upgrade = f'`op.upgrade_outbox("{self.records.name}"{argument})` in a migration'
        self.command = f"`{_command(self.records.name, self.schema)}`"

    def drift(self) -> Iterator[Drift]:
        """List every difference. PostgreSQL answers four queries, for all tables together."""
        inspector, names = inspect(self.connection), [table.name for table in self.tables]
        if self.schema is not None and not inspector.has_schema(self.schema):
            yield self._missing_schema(self.schema)
            yield from map(self._missing_table, self.tables)
            return
        columns = inspector.get_multi_columns(self.schema, filter_names=names)
        # SQLite lists the index of a unique constraint only if asked to, PostgreSQL always.
        indexes = inspector.get_multi_indexes(
            self.schema, filter_names=names, include_auto_indexes=True
        )
        for table in self.tables:
            key = (self.schema, table.name)
            if key not in columns:
                yield self._missing_table(table)
                continue
            found = {column["name"]: column for column in columns[key]}
            yield from self._column_drift(table, found)
            yield from self._index_drift(table, {index["name"] for index in indexes[key]})
            if table is self.records:
                yield from self._position_drift(found.get("position"))
                yield from self._id_drift(indexes[key])

    def _name(self, table: Table) -> str:
        return f"{self.schema}.{table.name}" if self.schema else table.name

    def _missing_schema(self, schema: str) -> Drift:
        text = f"no schema `{schema}` in {self.place}."
        if self.dialect.name == "sqlite":
            return Drift(f"{text} Attach a database file under that name.")
        create = CreateSchema(schema, if_not_exists=True)
        remedy = f"Create it with `alembic upgrade head`: {self.upgrade} does that."
        return Drift(f"{text} {remedy}", (create,))

    def _missing_table(self, table: Table) -> Drift:
        text = f"no table `{self._name(table)}` in {self.place}."
        repair = tuple(create_table(table, self.dialect))
        remedy = f"Create it with `alembic upgrade head`. Without Alembic: {self.command}."
        return Drift(f"{text} {remedy}", repair)

    def _missing_column(self, column: Column[Any]) -> Drift:
        text = f"table `{self._name(column.table)}` has no column `{column.name}`."
        if not can_be_added(column, self.dialect):
            return Drift(f"{text} Add it by hand: existing rows need a value for it.")
        return Drift(f"{text} {self.upgrade} adds it.", (add_column(column, self.dialect),))

    def _column_drift(self, table: Table, found: dict[str, ReflectedColumn]) -> Iterator[Drift]:
        missing = [column for column in table.columns if column.name not in found]
        yield from map(self._missing_column, missing)
        for name, column in found.items():
            subject = f"column `{name}` of table `{self._name(table)}`"
            wanted = table.columns.get(name)
            if wanted is None and _needs_a_value(column):
                yield Drift(
                    f"{subject} is not postroom's, is NOT NULL and has no default: postroom cannot"
                    " insert rows. Give it a default, or allow NULL."
                )
            elif wanted is not None and _differs_in_null(wanted, column):
                must = "must allow NULL" if wanted.nullable else "must be NOT NULL"
                yield Drift(f"{subject} {must}. {AUTOGENERATE}")

    def _index_drift(self, table: Table, found: set[str | None]) -> Iterator[Drift]:
        for index in indexes(table):
            if index.name not in found:
                text = f"index `{index.name}` of table `{self._name(table)}` is missing."
                yield Drift(f"{text} {self.upgrade} creates it.", (CreateIndex(index),))

    def _position_drift(self, found: ReflectedColumn | None) -> Iterator[Drift]:
        subject = f"column `position` of table `{self._name(self.records)}`"
        if self.dialect.name == "sqlite":
            if found and not self._has_autoincrement():
                yield Drift(
                    f"{subject} is not AUTOINCREMENT: SQLite could give the number of a deleted"
                    " record to a new one. Create the table again, and copy the rows."
                )
        # An INSERT of postroom may contain the position, which GENERATED ALWAYS refuses.
        elif found and found.get("identity", {"always": True})["always"]:
            yield Drift(
                f"{subject} is not GENERATED BY DEFAULT AS IDENTITY: no record can be saved."
                " Change it, and start the identity above the highest position."
            )

    def _has_autoincrement(self) -> bool:
        """Read AUTOINCREMENT from the table's DDL, because SQLAlchemy does not reflect it."""
        master = Table("sqlite_master", MetaData(schema=self.schema), Column("name"), Column("sql"))
        ddl = select(master.c.sql).where(master.c.name == self.records.name)
        return "AUTOINCREMENT" in str(self.connection.scalar(ddl)).upper()

    def _id_drift(self, indexes: list[ReflectedIndex]) -> Iterator[Drift]:
        if not any(map(_makes_id_unique, indexes)):
            yield Drift(
                f"table `{self._name(self.records)}` has no unique constraint on `id`: an event"
                f" that is saved twice would be delivered twice. {AUTOGENERATE}"
            )


def _command(table: str, schema: str | None) -> str:
    """Return the command that creates the tables, with options for names that are not default."""
    options = ["--apply"]
    if table != TABLE:
        options.append(f"--table {table}")
    if schema is not None:
        options.append(f"--schema {schema}")
    return " ".join(["postroom schema sql", *options])


def _place(url: URL) -> str:
    port = f":{url.port}" if url.port else ""
    name = f"database `{url.database}`" if url.database else "the database"
    return f"{name} at {url.host}{port}" if url.host else name


def _needs_a_value(column: ReflectedColumn) -> bool:
    filled = column["default"] is not None or "identity" in column or "computed" in column
    return not column["nullable"] and not filled


def _differs_in_null(wanted: Column[Any], found: ReflectedColumn) -> bool:
    # SQLite reports a primary key as nullable unless its definition says NOT NULL.
    return wanted.nullable != found["nullable"] and not wanted.primary_key


def _makes_id_unique(index: ReflectedIndex) -> bool:
    partial = {"postgresql_where", "sqlite_where"} & index.get("dialect_options", {}).keys()
    return index["unique"] and index["column_names"] == ["id"] and not partial
