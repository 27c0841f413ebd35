"""`Store`: puts the parts below together."""

from collections.abc import Callable
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.database.database import LEASE, Database
from postroom.database.errors import explain_pooler
from postroom.record import PARTITIONS
from postroom.store.blocked_keys import BlockedKeys
from postroom.store.claims import Claims
from postroom.store.cleaning import Cleaning
from postroom.store.leases import Leases
from postroom.store.settlement import Settlements
from postroom.tables.check import check_schema
from postroom.tables.tables import OutboxTables


class Store:
    """The outbox in a database. Every call is a short transaction of its own."""

    def __init__(
        self,
        engine: AsyncEngine,
        tables: OutboxTables,
        *,
        keep_delivered: bool = True,
        lease: timedelta = LEASE,
        shift: Callable[[], timedelta] = timedelta,
        keep_connections: bool = False,
    ) -> None:
        self.database = Database(
            engine, tables, lease=lease, shift=shift, keep_connections=keep_connections
        )
        self.blocked_keys = BlockedKeys(self.database)
        self.leases = Leases(self.database, self.blocked_keys)
        self.claims = Claims(self.database, self.blocked_keys)
        self.settlements = Settlements(
            self.database, self.blocked_keys, keep_delivered=keep_delivered
        )
        self.cleaning = Cleaning(self.database, self.blocked_keys)
        self.is_another = self.database.sql.is_another
        parts = (self.blocked_keys, self.leases, self.claims, self.settlements, self.cleaning)
        for part in parts:
            self.database.name_statements(part)

    async def open(self) -> None:
        """Check that the tables are there. Raises SchemaError."""
        # Without settings of ours: asyncpg looks up types that it does not know, and would leave
        # jit=off with the connection.
        try:
            await self.database.uncut(self._prepare())
        except Exception as error:
            explain_pooler(error)
            raise
        await self.leases.create()
        await self.claims.retry_postponed(range(PARTITIONS))

    async def _prepare(self) -> None:
        await self.database.sql.prepare(self.database.engine)
        async with self.database.engine.begin() as connection:
            await connection.run_sync(check_schema, self.database.tables)
