"""The store in a SQLite file: one writer at a time, and none while a delivery is under way."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy import StaticPool, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection

from postroom.errors import ConfigurationError
from postroom.store.base import Lease, Poll
from postroom.store.flavours import SQLiteFlavour
from postroom.store.rows import to_lease
from postroom.store.sql import SqlStore
from postroom.store.statements import Names

BUSY_TIMEOUT = 5000
"""Milliseconds to wait for another writer."""
WAL_PAUSE = 50
"""Milliseconds between attempts to change the file's mode."""


class PollStatements:
    """Who serves which partition, in steps."""

    def __init__(self, n: Names) -> None:
        sql = SQLiteFlavour()
        # What is there for whom: all that an idle relay asks.
        mine = "partition = l.partition"
        self.look = text(f"""SELECT partition, worker, is_ready OR coalesce(due_at <= :now, 0)
                AS is_waiting, (julianday(due_at) - julianday(:now)) * 86400 AS due_in
            FROM (SELECT l.partition, l.worker,
                EXISTS (SELECT 1 FROM {n.records} WHERE ready AND {mine}) AS is_ready,
                (SELECT min(due_at) FROM {n.records}
                    WHERE due_at IS NOT NULL AND {mine}) AS due_at
                FROM {n.leases} l)""")
        self.keep = text(f"""UPDATE {n.leases} SET leased_until = {sql.after(":lease")},
            served_at = :now WHERE worker = :worker AND partition {sql.among("partitions")}
            RETURNING *""")
        waits = f"partition {sql.among('waiting')}"
        self.give_back = text(f"""UPDATE {n.leases} SET worker = NULL, leased_until = NULL,
            crash_count = CASE WHEN {waits} THEN crash_count ELSE 0 END,
            suspect = CASE WHEN {waits} THEN suspect END,
            suspect_crashes = CASE WHEN {waits} THEN suspect_crashes ELSE 0 END
            WHERE worker = :worker AND {sql.not_among("partition", "partitions")}""")
        self.take = text(f"""UPDATE {n.leases} SET worker = :worker, token = token + 1,
            leased_until = {sql.after(":lease")}, served_at = :now,
            crash_count = crash_count + (worker IS NOT NULL),
            suspect_crashes = suspect_crashes + (worker IS NOT NULL AND suspect IS NOT NULL)
            WHERE partition {sql.among("partitions")} AND (worker IS NULL
                OR (worker <> :worker AND leased_until < :now))
            RETURNING *""")


class SQLiteStore(SqlStore):
    """One relay takes everything; a second one on the same file takes over when it stops."""

    flavour = SQLiteFlavour()
    valid_json = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if isinstance(self.engine.pool, StaticPool):
            raise ConfigurationError(
                "a relay cannot share the one connection of an in-memory SQLite database with the"
                " application. Use a file: sqlite+aiosqlite:///shop.db."
            )
        self._poll = PollStatements(self._names)

    async def open(self) -> None:
        """Let readers and the writer not wait for each other, then see `Store.open`."""
        async with self.engine.connect() as connection:
            for patience in range(BUSY_TIMEOUT // WAL_PAUSE, -1, -1):
                try:
                    await self._use_wal(connection)
                    break
                except OperationalError:  # this one does not wait for others by itself
                    if patience == 0:
                        raise
                    await asyncio.sleep(WAL_PAUSE / 1000)
        await super().open()

    async def _use_wal(self, connection: AsyncConnection) -> None:
        await connection.exec_driver_sql("SELECT 1")
        if await _in_transaction(connection):
            await connection.exec_driver_sql("ROLLBACK")
        await connection.exec_driver_sql("PRAGMA journal_mode = WAL")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Take the write lock at once: to ask for it after a read is to be refused."""
        async with self.engine.begin() as connection:
            await connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_TIMEOUT}")
            if not await _in_transaction(connection):  # as an engine that is told to may be
                await connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncConnection]:
        """See `GateKeeper.snapshot`."""
        async with self.engine.begin() as connection:
            await connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_TIMEOUT}")
            if not await _in_transaction(connection):
                await connection.exec_driver_sql("BEGIN")
            yield connection

    async def poll(
        self,
        worker: str,
        *,
        busy: Collection[int] = (),
        retiring: Collection[int] = (),
        take: bool = True,
        lease: timedelta,
    ) -> Poll:
        """See `Store.poll`. There is no share: SQLite has one writer, however many workers."""
        async with self.snapshot() as connection:
            rows = (await self._run(connection, self._poll.look)).all()
        waiting = {row.partition for row in rows if row.is_waiting}
        leases: list[Lease] = []
        if waiting or any(row.worker == worker for row in rows):
            wanted = (waiting - set(retiring) if take else set()) | set(busy)
            leases = await self._take(worker, wanted, waiting, lease)
        due = [row.due_in for row in rows if row.due_in is not None and not row.is_waiting]
        next_due = timedelta(seconds=min(due)) if due else None
        return Poll(leases=tuple(leases), waiting=len(waiting), next_due=next_due)

    async def _take(
        self, worker: str, partitions: Collection[int], waiting: Collection[int], lease: timedelta
    ) -> list[Lease]:
        values = {
            "worker": worker,
            "lease": lease.total_seconds(),
            "partitions": self.flavour.numbers(partitions),
            "waiting": self.flavour.numbers(waiting),
        }
        async with self.transaction() as connection:
            kept = (await self._run(connection, self._poll.keep, **values)).all()
            await self._run(connection, self._poll.give_back, **values)
            taken = (await self._run(connection, self._poll.take, **values)).all()
        return [to_lease(row) for row in (*kept, *taken)]


async def _in_transaction(connection: AsyncConnection) -> bool:
    raw = await connection.get_raw_connection()
    return bool(raw.driver_connection.in_transaction)  # type: ignore[union-attr]
