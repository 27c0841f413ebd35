"""`Store`: puts the parts below together; `counts` for operators."""

from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.database.database import LEASE, Database
from postroom.database.errors import explain_pooler
from postroom.store.base import Counts
from postroom.store.blocked_keys import HELD, BlockedKeys
from postroom.store.claims import Claims
from postroom.store.cleaning import Cleaning
from postroom.store.leases import Leases
from postroom.store.pauses import PausedRecords
from postroom.store.rows import moment
from postroom.store.settlement import Settlements
from postroom.tables.check import check_schema
from postroom.tables.tables import OutboxTables


class Store:
    """The outbox in a database. Every call is a short transaction of its own.

    For operators: `counts`; `postroom.operations` makes their changes. For the relay: `leases`,
    `claims`, `settlements`, `clean`, `repair`.
    """

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
        paused_records = PausedRecords(self.database, self.blocked_keys)
        self.leases = Leases(self.database, paused_records)
        self.claims = Claims(self.database, self.blocked_keys, paused_records)
        self.settlements = Settlements(
            self.database, self.blocked_keys, keep_delivered=keep_delivered
        )
        cleaning = Cleaning(self.database, self.blocked_keys)
        self.clean, self.repair = cleaning.clean, cleaning.repair
        self.release_unheld = cleaning.release_unheld
        self.delete_delivered = cleaning.delete_delivered
        n, sql = self.database, self.database.sql

        # What is not delivered, by what it waits for.
        held = f"SELECT count(*) FROM {n.records} r WHERE {HELD}"
        self._counts = text(f"""SELECT
            (SELECT count(*) FROM {n.records} WHERE ready) AS ready,
            (SELECT count(*) FROM {n.records} WHERE due_at IS NOT NULL) AS waiting,
            ({held} AND r.status = 'pending' AND r.due_at IS NULL) AS held,
            ({held} AND r.status = 'failed') AS failed,
            (SELECT count(*) FROM {n.blocked}) AS blocked_keys,
            (SELECT min(created_at) FROM {n.records} WHERE ready) AS oldest_ready,
            {sql.now} AS now""")
        for part in (self.blocked_keys, self.leases, self.claims, self.settlements, cleaning, self):
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

    async def _prepare(self) -> None:
        await self.database.sql.prepare(self.database.engine)
        async with self.database.engine.begin() as connection:
            await connection.run_sync(check_schema, self.database.tables)

    async def counts(self) -> Counts:
        """Count the records that are not delivered."""
        [row] = await self.database.fetch(self._counts)
        oldest = row.oldest_ready
        return Counts(
            ready=row.ready,
            waiting=row.waiting,
            held=row.held,
            failed=row.failed,
            blocked_keys=row.blocked_keys,
            oldest_ready=None if oldest is None else moment(row.now) - moment(oldest),
        )
