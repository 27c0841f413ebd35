"""The page of the schema has every table, column and index, as the DDL has them."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Column, Dialect, MetaData, Table, UniqueConstraint

from postroom import Outbox
from postroom.tables.script import plain_dialect
from postroom.tables.tables import STORAGE
from tests.docs.markdown import code, tables, tables_under
from tests.docs.pages import ROOT

PAGE = ROOT / "docs/reference/schema.md"
TABLES = {each.name: each for each in Outbox(MetaData()).tables}
POSTGRESQL, SQLITE = plain_dialect("postgresql"), plain_dialect("sqlite")


def test_every_table_is_listed_and_has_a_section() -> None:
    [overview] = [each for each in tables(PAGE) if each.heading == "Schema"]
    assert [code(cell)[0] for cell in overview.column("table")] == list(TABLES)
    sections = dict.fromkeys(each.heading for each in tables(PAGE) if each.heading != "Schema")
    assert list(sections) == list(TABLES)
    assert "An outbox is eight tables" in PAGE.read_text()
    assert len(TABLES) == 8


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_columns_are_those_of_the_ddl(table: Table) -> None:
    columns, _ = tables_under(PAGE, table.name)
    assert [row[:3] for row in columns.rows] == [column_row(each) for each in table.columns]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_indexes_are_those_of_the_ddl(table: Table) -> None:
    _, indexes = tables_under(PAGE, table.name)
    assert [row[:3] for row in indexes.rows] == list(index_rows(table))


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_storage_parameters_are_those_of_the_ddl(table: Table) -> None:
    parameters = ", ".join(
        f"`{name} = {value}`" for name, value in table.info.get(STORAGE, {}).items()
    )
    line = f"Storage parameters on PostgreSQL: {parameters}.\n"
    section = PAGE.read_text().partition(f"\n## {table.name}\n")[2].partition("\n## ")[0]
    assert section.count("Storage parameters") == bool(parameters)
    assert not parameters or line in section


def column_row(column: Column[object]) -> tuple[str, ...]:
    on_postgresql, on_sqlite = type_of(column, POSTGRESQL), type_of(column, SQLITE)
    types = on_postgresql if on_postgresql == on_sqlite else f"{on_postgresql}; {on_sqlite}"
    return f"`{column.name}`", types, default_of(column)


def type_of(column: Column[object], dialect: Dialect) -> str:
    return f"`{column.type.compile(dialect=dialect).lower()}`"


def default_of(column: Column[object]) -> str:
    if column.identity is not None:
        return "generated"
    default = getattr(column.server_default, "arg", None)
    if default is not None:
        assert not column.nullable
        return f"`{default}`"
    return "`NULL`" if column.nullable else "required"


def index_rows(table: Table) -> Iterator[tuple[str, str, str]]:
    yield "primary key", listed(table.primary_key.columns), ""
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint):
            yield "unique", listed(constraint.columns), ""
    for index in sorted(table.indexes, key=lambda each: str(each.name)):
        where = index.dialect_options["postgresql"]["where"]
        yield f"`{index.name}`", listed(index.columns), "" if where is None else f"`{where}`"


def listed(columns: object) -> str:
    return f"`{', '.join(each.name for each in columns)}`"  # type: ignore[attr-defined]
