"""A connection of the test to an application's database: what it has written, and faults."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self
from uuid import uuid4

import psycopg

REFUSE = """
    CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'refused by the test'; END $$
"""


class OtherConnection:
    """Each statement is a transaction of its own."""

    def __init__(self, url: str) -> None:
        self._address = url.replace("+asyncpg", "")
        self._connection = self.connect()

    def connect(self) -> psycopg.Connection:
        """Open another connection to the same database."""
        return psycopg.connect(self._address, autocommit=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []

    @contextmanager
    def refusing(self, table: str, condition: str, *, at_commit: bool = False) -> Iterator[None]:
        """Refuse rows that are so: at once, or when their transaction commits."""
        name = f"refuse_{uuid4().hex}"
        kind, when, deferred = (
            ("CONSTRAINT TRIGGER", "AFTER", "DEFERRABLE INITIALLY DEFERRED")
            if at_commit
            else ("TRIGGER", "BEFORE", "")
        )
        self.rows(REFUSE)
        self.rows(
            f"CREATE {kind} {name} {when} INSERT ON {table} {deferred}"
            f" FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION refuse()"
        )
        try:
            yield
        finally:
            self.rows(f"DROP TRIGGER {name} ON {table}")
