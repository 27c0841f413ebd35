"""SQL scripts for psql and sqlite3 that create an outbox, or add what one lacks."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sqlalchemy import Dialect
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from postroom.tables.check import Drift
from postroom.tables.ddl import create_all
from postroom.tables.tables import OutboxTables

QUIET: Final = "SET LOCAL client_min_messages = warning;"
"""PostgreSQL would list all that is there already."""
ON_A_LARGE_TABLE: Final = (
    "An index of a table that has many rows: create it before, by CREATE INDEX CONCURRENTLY,"
    " so that nobody has to wait."
)


def creation_script(tables: OutboxTables, dialect: str) -> str:
    """Write what creates an outbox, in a database that cannot be looked at.

    On PostgreSQL it also adds the columns and indexes that an older outbox lacks.
    """
    used = plain_dialect(dialect)
    title = f"Creates the outbox `{tables.records.fullname}`, or what it lacks."
    return _script([title], create_all(tables, used), used)


def upgrade_script(drift: Sequence[Drift], dialect: str) -> str:
    """Write what repairs the differences that need nobody's decision; the others are comments."""
    repairs = [statement for each in drift for statement in each.repair or ()]
    comments = [f"By hand: {each.text}" for each in drift if each.repair is None]
    created = {each.element for each in repairs if isinstance(each, CreateTable)}
    added = [each for each in repairs if isinstance(each, CreateIndex)]
    if dialect == "postgresql" and any(each.element.table not in created for each in added):
        comments.append(ON_A_LARGE_TABLE)
    if not drift:
        comments = ["Nothing is missing."]
    return _script(comments, repairs, plain_dialect(dialect))


def plain_dialect(name: str) -> Dialect:
    """Return the dialect of a database that writes names as they are: others double every %."""
    dialects = {"postgresql": PGDialect, "sqlite": SQLiteDialect}
    dialect: Dialect = dialects[name](paramstyle="named")
    return dialect


def _script(
    comments: Iterable[str], statements: Iterable[ExecutableDDLElement], dialect: Dialect
) -> str:
    """Write statements as one transaction."""
    lines = [f"-- {' '.join(comment.split())}" for comment in comments]
    body = list(_compiled(statements, dialect))
    if body:
        quiet = [QUIET] if dialect.name == "postgresql" else []
        lines += ["BEGIN;", *quiet, *body, "COMMIT;"]
    return "\n".join(lines) + "\n"


def _compiled(statements: Iterable[ExecutableDDLElement], dialect: Dialect) -> Iterator[str]:
    for statement in statements:
        text = str(statement.compile(dialect=dialect)).strip()
        yield "\n".join(line.rstrip() for line in f"{text};".splitlines())
