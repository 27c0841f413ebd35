"""Reads and writes receipts: one row per consumer and message."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Dialect,
    Select,
    Table,
    delete,
    func,
    select,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import ReturningInsert

from postroom.errors import ConfigurationError

BATCH: Final = 10_000
Begin = Callable[[], AbstractAsyncContextManager[AsyncConnection]]
_INSERTS: Final = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


class Receipts:
    """Adds, reads and deletes the receipts of one inbox. Times are of the database's clock."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def insert_once(self, dialect: Dialect) -> ReturningInsert[Any]:
        """Insert a receipt unless there is one; a row comes back for one that was inserted.

        On PostgreSQL it waits for the end of a transaction that inserts the same one.
        """
        insert: Any = _INSERTS.get(dialect.name)
        if insert is None:
            raise ConfigurationError(
                f"an inbox cannot be kept on {dialect.name}. Use PostgreSQL or SQLite."
            )
        statement: ReturningInsert[Any] = (
            insert(self.table).on_conflict_do_nothing().returning(self.table.c.consumer)
        )
        return statement

    def consumers(self, message_id: str) -> Select[Any]:
        """Select who has received a message."""
        return select(self.table.c.consumer).where(self.table.c.message_id == message_id)

    def _delete_batch(self, dialect: Dialect, older_than: timedelta) -> Delete:
        """Delete a batch of the oldest receipts; leave what others are deleting."""
        ours = tuple_(self.table.c.message_id, self.table.c.consumer)
        old = (
            select(self.table.c.message_id, self.table.c.consumer)
            .where(self.table.c.received_at < _ago(dialect, older_than))
            .order_by(self.table.c.received_at)
            .limit(BATCH)
            .with_for_update(skip_locked=True)
        )
        return delete(self.table).where(ours.in_(old))

    def delete(self, message_id: str, consumer: str) -> Delete:
        """Delete a receipt."""
        columns = self.table.c
        theirs = columns.message_id == message_id, columns.consumer == consumer
        return delete(self.table).where(*theirs)

    def add(self, connection: Connection, message_id: str, consumer: str) -> bool:
        """Add a receipt in the connection's transaction; return False if it was there before."""
        statement = self.insert_once(connection.dialect)
        receipt = {"message_id": message_id, "consumer": consumer}
        return connection.execute(statement, receipt).first() is not None

    async def clean(self, dialect: Dialect, older_than: timedelta, begin: Begin) -> int:
        """Delete receipts by age, each batch in a transaction of its own; return how many."""
        statement = self._delete_batch(dialect, older_than)
        deleted, batch = 0, BATCH
        while batch == BATCH:
            async with begin() as connection:
                batch = (await connection.execute(statement)).rowcount
            deleted += batch
        return deleted


def _ago(dialect: Dialect, age: timedelta) -> ColumnElement[Any]:
    if dialect.name == "sqlite":  # the form that its CURRENT_TIMESTAMP has
        return func.datetime("now", f"{-age.total_seconds():f} seconds")
    return func.now() - age
