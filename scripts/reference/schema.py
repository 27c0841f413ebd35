"""docs/reference/schema.md: each table with its columns and indexes, as the DDL has them."""

from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy
from sqlalchemy import Column, MetaData, UniqueConstraint

from postroom import Outbox
from postroom.tables.script import plain_dialect
from postroom.tables.tables import STORAGE
from scripts.reference.blocks import Block, Hand, Table, code, text_block

DIALECTS = plain_dialect("postgresql"), plain_dialect("sqlite")


def blocks() -> dict[str, Block]:
    """Return the list of the tables, and what each consists of."""
    tables = list(Outbox(MetaData()).tables)
    links = [(f"[{code(each.name)}](#{each.name})", Hand(), Hand(), Hand()) for each in tables]
    columns = "table", "rows", "read by your code", "changed by your code"
    return {"tables": Table(columns, links)} | {
        f"{kind} {table.name}": block for table in tables for kind, block in _parts(table)
    }


def _parts(table: sqlalchemy.Table) -> Iterator[tuple[str, Block]]:
    rows = [(code(each.name), _types(each), _default(each), Hand()) for each in table.columns]
    yield "columns", Table(("column", "type", "default", "meaning"), rows)
    yield "indexes", Table(("index", "columns", "where", "for"), list(_indexes(table)))
    if parameters := table.info.get(STORAGE):
        listed = ", ".join(code(f"{name} = {value}") for name, value in parameters.items())
        yield "storage", text_block(f"Storage parameters on PostgreSQL: {listed}.")


def _types(column: Column[Any]) -> str:
    """Return the type on PostgreSQL, and that on SQLite if it is another one."""
    types = [code(column.type.compile(dialect=each).lower()) for each in DIALECTS]
    return "; ".join(dict.fromkeys(types))


def _default(column: Column[Any]) -> str:
    if column.identity is not None:
        return "generated"
    default = getattr(column.server_default, "arg", "NULL" if column.nullable else None)
    return "required" if default is None else code(default)


def _indexes(table: sqlalchemy.Table) -> Iterator[tuple[str, ...]]:
    yield "primary key", _names(table.primary_key.columns), "", Hand(" ")
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint):
            yield "unique", _names(constraint.columns), "", Hand()
    for index in sorted(table.indexes, key=lambda each: str(each.name)):
        where = index.dialect_options["postgresql"]["where"]
        condition = "" if where is None else code(where)
        yield code(index.name), _names(index.columns), condition, Hand()


def _names(columns: Iterable[Column[Any]]) -> str:
    return code(", ".join(each.name for each in columns))
