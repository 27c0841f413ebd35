"""The store: an outbox in its database, for operators and for the relay."""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from postroom.record import Status
from postroom.store.base import Cleaned, Counts
from postroom.store.blocked_keys import HELD, BlockedKeys
from postroom.store.claims import Claims
from postroom.store.cleaning import Cleaning
from postroom.store.database import LEASE, Database, as_rows, keys_of, no_shift
from postroom.store.leases import Leases
from postroom.store.rows import moment
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
        shift: Callable[[], timedelta] = no_shift,
    ) -> None:
        self.database = Database(engine, tables, lease=lease, shift=shift)
        self.blocked_keys = BlockedKeys(self.database)
        self.leases = Leases(self.database)
        self.claims = Claims(self.database, self.blocked_keys)
        self.settlements = Settlements(
            self.database, self.blocked_keys, keep_delivered=keep_delivered
        )
        self._cleaning = Cleaning(self.database, self.blocked_keys)
        n, sql = self.database, self.database.sql

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
        self._retry = text(f"""UPDATE {n.records} SET status = 'pending', retry_count = 0,
            ready = false, due_at = {sql.now}, updated_at = {sql.now}
            WHERE position {sql.among("positions")}""")

    async def open(self) -> None:
        """Check that the tables are there. Raises SchemaError."""

        async def check(connection: AsyncConnection) -> None:
            await connection.run_sync(check_schema, self.database.tables)

        await self.database.inspect(check)
        await self.database.write(self.leases.create)

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

    async def retry(self, ids: Iterable[UUID]) -> int:
        """Have failed or waiting records tried again now, with a retry count of 0."""

        async def work(connection: AsyncConnection) -> int:
            found = await self._lock(connection, wanted)
            stuck = [row.position for row in found if row.status == Status.FAILED or row.due_at]
            await self.database.run_at(connection, self._retry, stuck)
            return len(stuck)

        wanted = self._ids(ids)
        return await self.database.write(work)

    async def skip(self, ids: Iterable[UUID]) -> int:
        """Leave failed records as they are, and release the later ones of their keys."""

        async def work(connection: AsyncConnection) -> int:
            found = await self._lock(connection, wanted)
            failed = [row for row in found if row.status == Status.FAILED]
            positions = [row.position for row in failed]
            await self.blocked_keys.release(connection, keys_of(failed), positions)
            return len(failed)

        wanted = self._ids(ids)
        return await self.database.write(work)

    async def discard(self, ids: Iterable[UUID]) -> int:
        """Delete records that are not delivered, and release the later ones of their keys."""

        async def work(connection: AsyncConnection) -> int:
            found = await self._lock(connection, wanted)
            positions = [row.position for row in found]
            await self.database.run_at(connection, self.settlements.delete, positions)
            await self.blocked_keys.release(connection, keys_of(found))
            return len(found)

        wanted = self._ids(ids)
        return await self.database.write(work)

    async def clean(self, *, older_than: timedelta, after: int = 0, limit: int = 1000) -> Cleaned:
        """Look at some records after a position, and delete those delivered longer ago.

        Does nothing while another worker cleans up. At the end of a round, old inbox rows go too.
        """
        return await self._cleaning.clean(older_than, after, limit)

    async def repair(self) -> int:
        """Repair records that nobody would ever claim, as an edit by hand may leave them."""
        return await self._cleaning.repair()

    async def _lock(self, connection: AsyncConnection, ids: str) -> Sequence[Any]:
        """Lock records and the rows of their keys, those first: see `blocked_keys`."""
        found = (await self.database.run(connection, self._find, ids=ids)).all()
        await self.blocked_keys.lock(connection, keys_of(found))
        return (await self.database.run(connection, self._find_locked, ids=ids)).all()

    def _ids(self, ids: Iterable[UUID]) -> str:
        return as_rows({"id": self.database.sql.identifier(each)} for each in ids)
