"""Alembic: operations that create and upgrade the tables.

A migration calls `upgrade_outbox` and `drop_outbox`; where env.py imports this module, they are
`op.upgrade_outbox` and `op.drop_outbox` too. Autogenerate needs nothing of this: it sees the tables
on the application's MetaData.
"""

from collections.abc import Sequence
from typing import Any

from alembic import op
from alembic.autogenerate import comparators
from alembic.operations import MigrateOperation, Operations
from alembic.util import DispatchPriority, PriorityDispatchResult
from sqlalchemy import Column, MetaData

from postroom.tables.check import upgrade_schema
from postroom.tables.ddl import create_all, drop_all
from postroom.tables.tables import TABLE, OutboxTables, define_tables

__all__ = ["drop_outbox", "upgrade_outbox"]


def upgrade_outbox(table: str = TABLE, *, schema: str | None = None) -> None:
    """Create the schema, tables, columns and indexes of the outbox that are missing.

    Call it in a migration; and again, in a new migration, when a later version of postroom needs
    it. With `--sql` it writes statements that create what is missing (on SQLite tables and indexes,
    but no columns).

    - `table`, `schema`: as for `Outbox`; the schema of `target_metadata` by default
    """
    op.invoke(UpgradeOutbox(table, schema))


def drop_outbox(table: str = TABLE, *, schema: str | None = None) -> None:
    """Drop the tables of the outbox with all records. The schema stays."""
    op.invoke(DropOutbox(table, schema))


class _OutboxOperation(MigrateOperation):
    def __init__(self, table: str, schema: str | None) -> None:
        self.table = table
        self.schema = schema

    def tables(self, operations: Operations) -> OutboxTables:
        # As op.create_table does, name the constraints by the application's own convention.
        target = self._target(operations.migration_context.opts.get("target_metadata"))
        metadata = MetaData(naming_convention=target.naming_convention)
        return define_tables(metadata, table=self.table, schema=self.schema or target.schema)

    def _target(self, given: MetaData | Sequence[MetaData] | None) -> MetaData:
        """Return the application's MetaData; of several, the one that has the outbox."""
        if isinstance(given, MetaData):
            return given
        tables = (table for metadata in given or () for table in metadata.tables.values())
        return next((each.metadata for each in tables if each.name == self.table), MetaData())


@Operations.register_operation("upgrade_outbox")
class UpgradeOutbox(_OutboxOperation):
    """Brings the tables of an outbox, and their schema, to what this postroom needs."""

    @classmethod
    def upgrade_outbox(
        cls, operations: Operations, table: str = TABLE, *, schema: str | None = None
    ) -> None:
        """Do what the function `upgrade_outbox` does."""
        operations.invoke(cls(table, schema))


@Operations.register_operation("drop_outbox")
class DropOutbox(_OutboxOperation):
    """Drops the tables of an outbox."""

    @classmethod
    def drop_outbox(
        cls, operations: Operations, table: str = TABLE, *, schema: str | None = None
    ) -> None:
        """Do what the function `drop_outbox` does."""
        operations.invoke(cls(table, schema))


@Operations.implementation_for(UpgradeOutbox)
def _upgrade(operations: Operations, operation: UpgradeOutbox) -> None:
    tables, context = operation.tables(operations), operations.migration_context
    if not context.as_sql:
        upgrade_schema(operations.get_bind(), tables)
        return
    for statement in create_all(tables, context.dialect):
        operations.execute(statement)


@Operations.implementation_for(DropOutbox)
def _drop(operations: Operations, operation: DropOutbox) -> None:
    for statement in drop_all(operation.tables(operations)):
        operations.execute(statement)


@comparators.dispatch_for(
    "column", qualifier="sqlite", priority=DispatchPriority.FIRST, subgroup="server_default"
)
def _sqlite_has_no_identity(
    context: Any, operation: Any, schema: Any, table: Any, name: Any, _: Any, column: Column[Any]
) -> PriorityDispatchResult:
    # Otherwise compare_server_default=True would ask for the identity of `position` for ever.
    identity = column.identity is not None
    return PriorityDispatchResult.STOP if identity else PriorityDispatchResult.CONTINUE
