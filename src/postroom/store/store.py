"""The store: an outbox in its database, for operators and for the relay."""

from collections.abc import Callable, Collection, Sequence, Set
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.database.database import LEASE, Database, Run, as_rows, transaction
from postroom.database.errors import explain_pooler
from postroom.record import Key, Status
from postroom.store.base import Counts
from postroom.store.blocked_keys import HELD, BlockedKeys
from postroom.store.claims import Claims
from postroom.store.cleaning import Cleaning
from postroom.store.leases import Leases
from postroom.store.rows import keys_of, moment
from postroom.store.settlement import Settlements
from postroom.tables.check import check_schema
from postroom.tables.tables import OutboxTables


class Store:
    """The outbox in a database. Every call is a short transaction of its own.

    For operators: `counts`, `retry`, `skip`, `discard`. For the relay: `leases`, `claims`,
    `settlements`, `clean`, `repair`.
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
        self.leases = Leases(self.database)
        self.claims = Claims(self.database, self.blocked_keys)
        self.settlements = Settlements(
            self.database, self.blocked_keys, keep_delivered=keep_delivered
        )
        cleaning = Cleaning(self.database, self.blocked_keys, self.settlements)
        self.clean, self.repair = cleaning.clean, cleaning.repair
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
        # Records that are not delivered, by id; then the same, locked.
        wanted = sql.within(f"SELECT id FROM {sql.rows('ids', {'id': 'uuid'})}")
        find = f"""SELECT position, coalesce(aggregate_type, '') AS aggregate_type,
            aggregate_id, status, due_at FROM {n.records}
            WHERE id {wanted} AND status <> 'published' ORDER BY position"""
        self._find, self._find_locked = text(find), text(f"{find} {sql.lock}")
        # Have them claimed now, whatever they waited for.
        self._retry = text(f"""UPDATE {n.records} SET status = 'pending', retry_count = 0,
            ready = false, due_at = {sql.now}, updated_at = {sql.now}
            WHERE position {sql.among("positions")}""")

    async def open(self) -> None:
        """Check that the tables are there. Raises SchemaError."""
        # Without settings of ours: asyncpg looks up types that it does not know, and would leave
        # jit=off with the connection.
        try:
            await self.database.sql.prepare(self.database.engine)
            async with self.database.engine.begin() as connection:
                await connection.run_sync(check_schema, self.database.tables)
        except Exception as error:
            explain_pooler(error)
            raise
        await self.leases.create()

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

    @transaction
    async def retry(self, run: Run, ids: Collection[UUID]) -> int:
        """Have failed or waiting records tried again now, with a retry count of 0."""
        found, _ = await self._lock(run, ids)
        stuck = [row.position for row in found if row.status == Status.FAILED or row.due_at]
        await self.database.run_at(run, self._retry, stuck)
        return len(stuck)

    @transaction
    async def skip(self, run: Run, ids: Collection[UUID]) -> int:
        """Leave failed records as they are, and release the later ones of their keys."""
        found, blocked = await self._lock(run, ids)
        failed = [row.position for row in found if row.status == Status.FAILED]
        await self.blocked_keys.release(run, blocked, failed)
        return len(failed)

    @transaction
    async def discard(self, run: Run, ids: Collection[UUID]) -> int:
        """Delete records that are not delivered, and release the later ones of their keys."""
        found, blocked = await self._lock(run, ids)
        positions = [row.position for row in found]
        await self.database.run_at(run, self.settlements.delete, positions)
        await self.blocked_keys.release(run, blocked)
        return len(found)

    async def _lock(self, run: Run, ids: Collection[UUID]) -> tuple[Sequence[Any], Set[Key]]:
        """Lock records, and the rows of their keys that are blocked; return both."""
        if len(ids) == 0:
            return (), set()
        wanted = as_rows({"id": each.hex} for each in ids)
        keys = keys_of(await run(self._find, ids=wanted))
        blocked = (await self.blocked_keys.lock(run, keys)).keys()
        found = await run(self._find_locked, ids=wanted)
        await self.blocked_keys.check_all_locked(run, keys, blocked)
        return found, blocked
