"""The store in PostgreSQL, for any number of workers."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from postroom.record import PARTITIONS
from postroom.store.base import Poll
from postroom.store.flavours import PostgresFlavour
from postroom.store.rows import to_lease
from postroom.store.sql import SqlStore
from postroom.store.statements import Names, within_partition

PRESENCE = 5
"""Seconds for which a worker counts after its poll: it polls every second while there is work."""
LEASE = "l.partition, l.token, l.crash_count, l.suspect, l.suspect_crashes"


class PostgresStore(SqlStore):
    """Leases are divided among workers; a claim reads without a lock."""

    flavour = PostgresFlavour()
    valid_json = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._poll = poll_statement(self._names)
        # Whatever the application's own transactions are.
        self._committed_reads = self.engine.execution_options(isolation_level="READ COMMITTED")
        self._one_moment = self.engine.execution_options(isolation_level="REPEATABLE READ")

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncConnection]:
        """See `GateKeeper.snapshot`."""
        await self._dialect_ready()
        async with self._one_moment.begin() as connection:
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """See `GateKeeper.transaction`."""
        await self._dialect_ready()
        async with self._committed_reads.begin() as connection:
            yield connection

    async def _dialect_ready(self) -> None:
        """Wait until SQLAlchemy knows the server, which the first connection of all finds out.

        A second one at the same moment would not wait for it, and fail to set its isolation level.
        """
        while getattr(self.engine.dialect, "default_isolation_level", None) is None:
            async with self.engine.connect():
                await asyncio.sleep(0)

    async def poll(
        self,
        worker: str,
        *,
        busy: Collection[int] = (),
        retiring: Collection[int] = (),
        take: bool = True,
        lease: timedelta,
    ) -> Poll:
        """See `Store.poll`."""
        async with self.transaction() as connection:
            result = await self._run(
                connection,
                self._poll,
                worker=worker,
                busy=list(busy),
                retiring=list(retiring),
                take=take,
                lease=lease.total_seconds(),
            )
            rows = result.all()
        due = rows[0].next_due  # the first row is there, with or without a lease
        return Poll(
            leases=tuple(to_lease(row) for row in rows if row.partition is not None),
            waiting=rows[0].waiting,
            share=rows[0].share,
            next_due=None if due is None else timedelta(seconds=float(due)),
        )

    async def _may_clean(self, connection: AsyncConnection) -> bool:
        lock = text("SELECT pg_try_advisory_xact_lock(hashtext(:table), 0)")
        return bool(await connection.scalar(lock, {"table": f"postroom {self._names.records}"}))


def poll_statement(n: Names) -> TextClause:
    """Write the one statement of an idle relay: who am I with, what is there, what do I hold."""
    sql = PostgresFlavour()
    busy, retiring = sql.among("busy"), sql.among("retiring")
    wanted = f"CAST(:take AS boolean) AND work.waiting AND NOT l.partition {retiring}"
    keep = f"(l.partition {busy} OR ({wanted}))"
    # Whoever is frozen before the commit must not lock its leases for longer than it may hold them.
    frozen = """set_config('idle_in_transaction_session_timeout',
        CAST(CAST(1000 * :lease AS integer) AS text), true)"""
    return text(f"""
        WITH present AS (
            INSERT INTO {n.workers} (worker, seen_until)
            VALUES (:worker, {sql.after(str(PRESENCE))})
            ON CONFLICT (worker) DO UPDATE SET seen_until = excluded.seen_until
        ), work AS MATERIALIZED (
            SELECT l.partition, d.due_at,
                coalesce(r.found, false) OR coalesce(d.due_at <= {sql.now}, false) AS waiting
            FROM {n.leases} l CROSS JOIN LATERAL (SELECT l.partition) AS partitions
            LEFT JOIN LATERAL (SELECT true AS found FROM {n.records} r
                WHERE r.ready AND {within_partition("r.position")} LIMIT 1
            ) r ON true
            LEFT JOIN LATERAL (SELECT r.due_at FROM {n.records} r
                WHERE r.due_at IS NOT NULL AND {within_partition("r.due_at, r.position")} LIMIT 1
            ) d ON true
        ), others AS (
            SELECT count(*) AS n FROM {n.workers}
            WHERE worker <> :worker AND seen_until > {sql.now}
        ), share AS (
            SELECT count(work.partition) AS waiting, CASE WHEN others.n = 0 THEN {PARTITIONS}
                ELSE CAST(ceil(count(work.partition) / (1.0 + others.n)) AS integer) END AS size
            FROM others LEFT JOIN work ON work.waiting GROUP BY others.n
        ), kept AS (
            UPDATE {n.leases} l SET leased_until = {sql.after(":lease")}, served_at = {sql.now}
            FROM work WHERE work.partition = l.partition AND l.worker = :worker AND {keep}
            RETURNING {LEASE}
        ), returned AS (
            UPDATE {n.leases} l SET worker = NULL, leased_until = NULL,
                crash_count = CASE WHEN work.waiting THEN l.crash_count ELSE 0 END,
                suspect = CASE WHEN work.waiting THEN l.suspect END,
                suspect_crashes = CASE WHEN work.waiting THEN l.suspect_crashes ELSE 0 END
            FROM work WHERE work.partition = l.partition AND l.worker = :worker AND NOT {keep}
        ), expired AS (
            SELECT l.partition, l.worker FROM {n.leases} l JOIN work ON work.partition = l.partition
            WHERE work.waiting AND l.worker <> :worker AND l.leased_until < {sql.now}
        ), wanted AS (
            SELECT l.partition, l.worker FROM {n.leases} l
            JOIN work ON work.partition = l.partition
            WHERE CAST(:take AS boolean) AND work.waiting AND (l.worker IS NULL
                OR (l.worker <> :worker AND l.leased_until < {sql.now}))
            ORDER BY l.worker IS NULL, l.served_at NULLS FIRST, l.partition
            LIMIT (SELECT greatest(0, share.size - (SELECT count(*) FROM kept)) FROM share)
                + (SELECT count(*) FROM expired)
            FOR UPDATE OF l SKIP LOCKED
        ), dead AS (
            DELETE FROM {n.workers} w USING wanted WHERE w.worker = wanted.worker
        ), taken AS (
            UPDATE {n.leases} l SET worker = :worker, token = l.token + 1,
                leased_until = {sql.after(":lease")}, served_at = {sql.now},
                crash_count = l.crash_count + CASE WHEN l.worker IS NULL THEN 0 ELSE 1 END,
                suspect_crashes = l.suspect_crashes
                    + CASE WHEN l.worker IS NULL OR l.suspect IS NULL THEN 0 ELSE 1 END
            FROM wanted WHERE wanted.partition = l.partition
            RETURNING {LEASE}
        )
        SELECT share.size AS share, share.waiting, l.*, {frozen} AS frozen, (
            SELECT extract(epoch FROM min(least(due_at, {sql.after("86400")})) - {sql.now})
            FROM work WHERE due_at > {sql.now}
        ) AS next_due
        FROM share LEFT JOIN (SELECT * FROM kept UNION ALL SELECT * FROM taken) l ON true""")
