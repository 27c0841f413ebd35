"""The store in PostgreSQL, for any number of workers."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from postroom.record import PARTITIONS
from postroom.store.base import Lease, Poll
from postroom.store.flavours import PostgresFlavour
from postroom.store.sql import SqlStore
from postroom.store.statements import Names

LEASE = "l.partition, l.token, l.crash_count, l.suspect, l.suspect_crashes"


class PostgresStore(SqlStore):
    """Leases are divided among workers; a claim reads without a lock."""

    flavour = PostgresFlavour()
    valid_json = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._poll = poll_statement(self._names)
        # Statements that stand alone save the round trips of BEGIN and COMMIT.
        self._alone = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._together = self.engine.execution_options(isolation_level="READ COMMITTED")

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[AsyncConnection]:
        """See `GateKeeper.statement`."""
        async with self._alone.connect() as connection:
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """See `GateKeeper.transaction`."""
        async with self._together.begin() as connection:
            yield connection

    async def poll(
        self,
        worker: str,
        *,
        busy: Collection[int] = (),
        retiring: Collection[int] = (),
        lease: timedelta,
    ) -> Poll:
        """See `Store.poll`."""
        async with self.statement() as connection:
            result = await self._run(
                connection,
                self._poll,
                worker=worker,
                busy=list(busy),
                retiring=list(retiring),
                lease=lease.total_seconds(),
            )
            rows = result.all()
        due = rows[0].next_due  # the first row is there, with or without a lease
        return Poll(
            leases=tuple(_lease(row) for row in rows if row.partition is not None),
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
    keep = f"(l.partition {busy} OR (work.waiting AND NOT l.partition {retiring}))"
    return text(f"""
        WITH present AS (
            INSERT INTO {n.workers} (worker, seen_until)
            VALUES (:worker, {sql.after("2 * CAST(:lease AS double precision)")})
            ON CONFLICT (worker) DO UPDATE SET seen_until = excluded.seen_until
        ), work AS MATERIALIZED (
            SELECT l.partition, d.due_at,
                coalesce(r.found, false) OR coalesce(d.due_at <= {sql.now}, false) AS waiting
            FROM {n.leases} l
            LEFT JOIN LATERAL (SELECT true AS found FROM {n.records} r
                WHERE r.ready AND r.partition = l.partition ORDER BY r.position LIMIT 1
            ) r ON true
            LEFT JOIN LATERAL (SELECT r.due_at FROM {n.records} r
                WHERE r.due_at IS NOT NULL AND r.partition = l.partition
                ORDER BY r.due_at, r.position LIMIT 1
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
            UPDATE {n.leases} l SET worker = NULL, leased_until = NULL, crash_count = 0,
                suspect = NULL, suspect_crashes = 0
            FROM work WHERE work.partition = l.partition AND l.worker = :worker AND NOT {keep}
        ), wanted AS (
            SELECT l.partition FROM {n.leases} l JOIN work ON work.partition = l.partition
            WHERE work.waiting AND (l.worker IS NULL
                OR (l.worker <> :worker AND l.leased_until < {sql.now}))
            ORDER BY l.served_at NULLS FIRST, l.partition
            LIMIT (SELECT greatest(0, share.size - (SELECT count(*) FROM kept)) FROM share)
            FOR UPDATE OF l SKIP LOCKED
        ), taken AS (
            UPDATE {n.leases} l SET worker = :worker, token = l.token + 1,
                leased_until = {sql.after(":lease")}, served_at = {sql.now},
                crash_count = l.crash_count + CASE WHEN l.worker IS NULL THEN 0 ELSE 1 END,
                suspect_crashes = l.suspect_crashes
                    + CASE WHEN l.worker IS NULL OR l.suspect IS NULL THEN 0 ELSE 1 END
            FROM wanted WHERE wanted.partition = l.partition
            RETURNING {LEASE}
        )
        SELECT share.size AS share, share.waiting, l.*, (
            SELECT extract(epoch FROM min(due_at) - {sql.now}) FROM work WHERE due_at > {sql.now}
        ) AS next_due
        FROM share LEFT JOIN (SELECT * FROM kept UNION ALL SELECT * FROM taken) l ON true""")


def _lease(row: Any) -> Lease:
    return Lease(
        partition=row.partition,
        token=row.token,
        crash_count=row.crash_count,
        suspect=row.suspect,
        suspect_crashes=row.suspect_crashes,
    )
