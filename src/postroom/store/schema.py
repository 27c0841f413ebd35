"""The tables in the database: checked against their definition, created, upgraded, dropped."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Identity,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    column,
    inspect,
    select,
    table,
    text,
)
from sqlalchemy.engine.interfaces import ReflectedColumn, ReflectedIndex
from sqlalchemy.schema import CreateSchema

from postroom.errors import SchemaError
from postroom.store.ddl import drop_all
from postroom.store.drift import Drift, Site, table_drift
from postroom.store.table import OutboxTables


def check_schema(connection: Connection, tables: OutboxTables) -> None:
    """Raise SchemaError, which names every drift, unless the tables are as they have to be."""
    if drift := schema_drift(connection, tables):
        raise SchemaError(drift)


def schema_drift(connection: Connection, tables: OutboxTables) -> list[str]:
    """Name, one sentence each, what differs from the definition and stands in the way.

    Columns and indexes that the application added are its own business.
    """
    return [drift.text for drift in find_drift(connection, tables)]


def upgrade_schema(connection: Connection, tables: OutboxTables) -> None:
    """Create what is missing and mend what differs; does nothing where nothing does.

    Raises SchemaError, with nothing changed, for a drift that only a person can mend.
    """
    drift = find_drift(connection, tables)
    if by_hand := [item.text for item in drift if item.mend is None]:
        raise SchemaError(by_hand)
    for item in drift:
        for statement in item.mend or ():
            connection.execute(statement)


def drop_tables(connection: Connection, tables: OutboxTables) -> None:
    """Drop the tables with all that is in them; their schema stays."""
    for statement in drop_all(tables):
        connection.execute(statement)


def find_drift(connection: Connection, tables: OutboxTables) -> list[Drift]:
    """Compare the database with the definition of the tables."""
    site = _site(connection, tables)
    missing = list(_missing_schema(connection, tables, site))
    found = {} if missing else _reflect(connection, tables)
    pairs = [(defined, found.get(defined.name)) for defined in tables]
    return [*missing, *(drift for pair in pairs for drift in table_drift(*pair, site))]


def _site(connection: Connection, tables: OutboxTables) -> Site:
    records = tables.records
    schema = f', schema="{records.schema}"' if records.schema else ""
    upgrade = f'`op.upgrade_outbox("{records.name}"{schema})` in a migration'
    return Site(dialect=connection.dialect, place=_place(connection.engine.url), upgrade=upgrade)


def _place(url: URL) -> str:
    port = f":{url.port}" if url.port else ""
    name = f"database `{url.database}`" if url.database else "the database"
    return f"{name} at {url.host}{port}" if url.host else name


def _missing_schema(connection: Connection, tables: OutboxTables, site: Site) -> Iterator[Drift]:
    schema = connection.schema_for_object(tables.records)
    if schema is None or inspect(connection).has_schema(schema):
        return
    text = f"no schema `{schema}` in {site.place}."
    if site.dialect.name == "sqlite":
        yield Drift(text=f"{text} Attach a database file under that name.")
    else:
        mend = (CreateSchema(schema, if_not_exists=True),)
        remedy = f"Create it with `alembic upgrade head`, where {site.upgrade} does it."
        yield Drift(text=f"{text} {remedy}", mend=mend)


def _reflect(connection: Connection, tables: OutboxTables) -> dict[str, Table]:
    """Read the tables that are there: in four queries for all of them, and only what is compared.

    Table(autoload_with=…) takes seven queries for each, and several times as long.
    """
    schema = connection.schema_for_object(tables.records)
    inspector, which = inspect(connection), [each.name for each in tables]
    columns = inspector.get_multi_columns(schema, filter_names=which)
    keys = inspector.get_multi_pk_constraint(schema, filter_names=which)
    uniques = inspector.get_multi_unique_constraints(schema, filter_names=which)
    indexes = inspector.get_multi_indexes(schema, filter_names=which)
    found = {}
    for name in columns:
        there = Table(name[1], MetaData(), *map(_column, columns[name]), schema=schema)
        there.append_constraint(PrimaryKeyConstraint(*keys[name]["constrained_columns"]))
        for unique in uniques[name]:
            there.append_constraint(UniqueConstraint(*unique["column_names"]))
        for index in indexes[name]:
            _add_index(there, index)
        if connection.dialect.name == "sqlite":
            options = there.dialect_options["sqlite"]
            options["autoincrement"] = _has_autoincrement(connection, there)
        found[there.name] = there
    return found


def _column(found: ReflectedColumn) -> Column[Any]:
    identity = [Identity(**found["identity"])] if "identity" in found else []
    default = found["default"]
    return Column(
        found["name"],
        found["type"],
        *identity,
        nullable=found["nullable"],
        server_default=None if default is None or identity else text(default),
    )


def _add_index(table: Table, found: ReflectedIndex) -> None:
    if "duplicates_constraint" in found:
        return
    expressions = found.get("expressions", found["column_names"])
    on = [table.c.get(each, text(each)) for each in expressions if each is not None]
    Index(found["name"], *on, unique=found["unique"], _table=table, **found["dialect_options"])


def _has_autoincrement(connection: Connection, found: Table) -> bool:
    """Read it from the table's DDL: SQLAlchemy does not reflect it."""
    master = table("sqlite_master", schema=connection.schema_for_object(found))
    ddl = select(column("sql", Text)).select_from(master).where(column("name") == found.name)
    return "AUTOINCREMENT" in (connection.scalar(ddl) or "").upper()
