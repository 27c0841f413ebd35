"""How a worker polls: which partitions have work, and which of them it leases.

PostgreSQL does it in one statement, in which workers divide the partitions. SQLite has one writer,
so the first worker takes everything.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from postroom.record import PARTITIONS
from postroom.store.base import Lease, Poll, Unattended
from postroom.store.claims import within_partition
from postroom.store.database import HEARTBEAT, Database
from postroom.store.rows import moment

PRESENCE = 2 * HEARTBEAT
"""Seconds for which a worker counts as present after a poll or a heartbeat."""
LEASE = "l.partition, l.token, l.crash_count, l.suspect, l.suspect_crashes"


class PostgresPoll:
    """Polls in one statement, also when there is nothing to do."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._statement = postgres_poll(database)

    async def __call__(
        self,
        worker: str,
        *,
        lease: timedelta,
        busy: Collection[int] = (),
        surplus: Collection[int] = (),
        take: bool = True,
    ) -> Poll:
        """Poll. Keeps `busy` partitions, and releases the idle ones of `surplus`.

        Without `take`, everything that is not busy is released.
        """
        values = {
            "worker": worker,
            "busy": self._database.sql.numbers(busy),
            "surplus": self._database.sql.numbers(surplus),
            "take": take,
            "lease": lease.total_seconds(),
        }
        rows = await self._database.fetch(self._statement, **values)
        first = rows[0]  # which is there with or without a lease
        return Poll(
            leases=tuple(to_lease(row) for row in rows if row.partition is not None),
            waiting=first.waiting,
            share=first.share,
            next_due=_seconds(first.next_due),
            unattended=tuple(
                Unattended(worker=w, partitions=count, until=moment(until))
                for w, count, until in first.unattended or ()
            ),
        )


class SQLitePoll:
    """Polls in steps: it writes only if there is work, or a lease to release."""

    def __init__(self, database: Database) -> None:
        self._database = database
        n, sql = database, database.sql
        free = _expired(database)
        self._present = text(present(database))
        # What there is to do, and for which worker: all that an idle relay asks.
        mine = "partition = l.partition"
        self._look = text(f"""SELECT l.*, is_ready OR coalesce(due_at <= :now, 0) AS is_waiting,
                {sql.seconds_between(":now", "due_at")} AS due_in,
                coalesce({free}, 0) AS is_free, EXISTS (SELECT 1 FROM {n.workers} w
                    WHERE w.worker = l.worker AND w.seen_until > :now) AS is_present
            FROM (SELECT l.*,
                EXISTS (SELECT 1 FROM {n.records} WHERE ready AND {mine}) AS is_ready,
                (SELECT min(due_at) FROM {n.records}
                    WHERE due_at IS NOT NULL AND {mine}) AS due_at
                FROM {n.leases} l) AS l""")
        self._keep = text(f"""UPDATE {n.leases} SET leased_until = {sql.after(":lease")},
            served_at = :now WHERE worker = :worker AND partition {sql.among("partitions")}
            RETURNING *""")
        waits = f"partition {sql.among('waiting')}"
        self._release = text(f"""UPDATE {n.leases} SET worker = NULL, leased_until = NULL,
            crash_count = CASE WHEN {waits} THEN crash_count ELSE 0 END,
            suspect = CASE WHEN {waits} THEN suspect END,
            suspect_crashes = CASE WHEN {waits} THEN suspect_crashes ELSE 0 END
            WHERE worker = :worker AND {sql.not_among("partition", "partitions")}""")
        self._take = text(f"""UPDATE {n.leases} AS l SET worker = :worker, token = token + 1,
            leased_until = {sql.after(":lease")}, served_at = :now,
            lost_by = coalesce(worker, lost_by),
            crash_count = crash_count + (worker IS NOT NULL AND leased_until < :now)
            WHERE partition {sql.among("partitions")}
                AND (worker IS NULL OR (worker <> :worker AND {free}))
            RETURNING *""")

    async def __call__(
        self,
        worker: str,
        *,
        lease: timedelta,
        busy: Collection[int] = (),
        surplus: Collection[int] = (),
        take: bool = True,
    ) -> Poll:
        """See `PostgresPoll`. There is no share: the first worker takes everything."""

        async def look(connection: AsyncConnection) -> Any:
            return (await self._database.run(connection, self._look)).all()

        rows = await self._database.read(look)
        waiting = {row.partition for row in rows if row.is_waiting}
        leases: list[Lease] = []
        if waiting or any(row.worker == worker for row in rows):
            wanted = (waiting - set(surplus) if take else set()) | set(busy)
            leases = await self._update(worker, wanted, waiting, lease)
        due = [row.due_in for row in rows if row.due_in is not None and not row.is_waiting]
        others = [row for row in rows if row.worker not in (None, worker) and row.is_waiting]
        return Poll(
            leases=tuple(leases),
            waiting=len(waiting),
            next_due=_seconds(min(due, default=None)),
            unattended=_unattended([row for row in others if not (row.is_free or row.is_present)]),
        )

    async def _update(
        self, worker: str, partitions: Collection[int], waiting: Collection[int], lease: timedelta
    ) -> list[Lease]:
        values = {
            "worker": worker,
            "lease": lease.total_seconds(),
            "partitions": self._database.sql.numbers(partitions),
            "waiting": self._database.sql.numbers(waiting),
        }

        async def work(connection: AsyncConnection) -> list[Lease]:
            kept = (await self._database.run(connection, self._keep, **values)).all()
            await self._database.run(connection, self._release, **values)
            taken = (await self._database.run(connection, self._take, **values)).all()
            await self._database.run(connection, self._present, **values)
            return [to_lease(row) for row in (*kept, *taken)]

        return await self._database.write(work)


def postgres_poll(n: Database) -> TextClause:
    """Write the one statement of an idle relay: which workers, which work, which leases."""
    sql = n.sql
    busy, surplus = sql.among("busy"), sql.among("surplus")
    wanted = f"CAST(:take AS boolean) AND work.waiting AND NOT l.partition {surplus}"
    keep = f"(l.partition {busy} OR ({wanted}))"
    expired = _expired(n)
    # A busy partition is not looked into: what was delivered lately may be slow to walk past.
    ready = f"NOT l.partition {busy} AND r.ready AND {within_partition('l', '0')} LIMIT 1"
    return text(f"""
        WITH present AS ({present(n)}), work AS MATERIALIZED (
            SELECT l.partition, d.due_at, l.partition {busy} OR coalesce(r.found, false)
                OR coalesce(d.due_at <= {sql.now}, false) AS waiting
            FROM {n.leases} l
            LEFT JOIN LATERAL (SELECT true AS found FROM {n.records} r WHERE {ready}) r ON true
            LEFT JOIN LATERAL (SELECT r.due_at FROM {n.records} r
                WHERE r.due_at IS NOT NULL AND r.partition = l.partition
                ORDER BY r.due_at LIMIT 1) d ON true
        ), others AS (
            SELECT count(*) AS n FROM {n.workers}
            WHERE seen_until > {sql.now} AND worker <> :worker
        ), share AS (
            SELECT count(work.partition) AS waiting, CASE WHEN others.n = 0 THEN {PARTITIONS}
                ELSE CAST(ceil(count(work.partition) / (1.0 + others.n)) AS integer) END AS size
            FROM others LEFT JOIN work ON work.waiting GROUP BY others.n
        ), kept AS (
            UPDATE {n.leases} l SET leased_until = {sql.after(":lease")}, served_at = {sql.now}
            FROM work WHERE work.partition = l.partition AND l.worker = :worker AND {keep}
            RETURNING {LEASE}
        ), released AS (
            UPDATE {n.leases} l SET worker = NULL, leased_until = NULL,
                crash_count = CASE WHEN work.waiting THEN l.crash_count ELSE 0 END,
                suspect = CASE WHEN work.waiting THEN l.suspect END,
                suspect_crashes = CASE WHEN work.waiting THEN l.suspect_crashes ELSE 0 END
            FROM work WHERE work.partition = l.partition AND l.worker = :worker AND NOT {keep}
        ), expired AS (
            SELECT l.partition FROM {n.leases} l JOIN work ON work.partition = l.partition
            WHERE work.waiting AND l.worker <> :worker AND {expired}
        ), wanted AS (
            SELECT l.partition, l.worker FROM {n.leases} l
            JOIN work ON work.partition = l.partition
            WHERE CAST(:take AS boolean) AND work.waiting
                AND (l.worker IS NULL OR (l.worker <> :worker AND {expired}))
            ORDER BY l.worker IS NULL, l.served_at NULLS FIRST, l.partition
            LIMIT (SELECT greatest(0, share.size - (SELECT count(*) FROM kept)) FROM share)
                + (SELECT count(*) FROM expired)
            FOR UPDATE OF l SKIP LOCKED
        ), dead AS (
            DELETE FROM {n.workers} w USING wanted WHERE w.worker = wanted.worker
        ), taken AS (
            UPDATE {n.leases} l SET worker = :worker, token = l.token + 1,
                leased_until = {sql.after(":lease")}, served_at = {sql.now},
                lost_by = coalesce(l.worker, l.lost_by),
                crash_count = l.crash_count + CASE WHEN l.leased_until < {sql.now} THEN 1 ELSE 0 END
            FROM wanted WHERE wanted.partition = l.partition
            RETURNING {LEASE}
        ), unattended AS (
            SELECT json_agg(json_build_array(u.worker, u.partitions, u.until)) AS rows FROM (
                SELECT l.worker, count(*) AS partitions, max(l.leased_until) AS until
                FROM {n.leases} l JOIN work ON work.partition = l.partition
                WHERE work.waiting AND l.worker <> :worker AND NOT {expired} AND NOT EXISTS (
                    SELECT 1 FROM {n.workers} w WHERE w.worker = l.worker
                    AND w.seen_until > {sql.now})
                GROUP BY l.worker) u
        )
        SELECT share.size AS share, share.waiting, l.*, unattended.rows AS unattended, (
            SELECT extract(epoch FROM min(least(due_at, {sql.after("86400")})) - {sql.now})
            FROM work WHERE due_at > {sql.now}
        ) AS next_due
        FROM share CROSS JOIN unattended
        LEFT JOIN (SELECT * FROM kept UNION ALL SELECT * FROM taken) l ON true""")


def _expired(database: Database) -> str:
    """Write that a lease has run out, or is further ahead than its length: the clock was wrong."""
    sql = database.sql
    length = sql.seconds_between("l.served_at", "l.leased_until")
    left = sql.seconds_between(sql.now, "l.leased_until")
    return f"(l.leased_until < {sql.now} OR {left} > 1.5 * {length})"


def present(database: Database) -> str:
    """Write that a worker is there, for a while."""
    until = database.sql.after(str(PRESENCE))
    return f"""INSERT INTO {database.workers} (worker, seen_until) VALUES (:worker, {until})
        ON CONFLICT (worker) DO UPDATE SET seen_until = excluded.seen_until"""


def to_lease(row: Any) -> Lease:
    """Read the row of a lease."""
    return Lease(
        partition=row.partition,
        token=row.token,
        crash_count=row.crash_count,
        suspect=row.suspect,
        suspect_crashes=row.suspect_crashes,
    )


def _unattended(rows: Collection[Any]) -> tuple[Unattended, ...]:
    until: dict[str, list[datetime]] = {}
    for row in rows:
        until.setdefault(row.worker, []).append(moment(row.leased_until))
    return tuple(
        Unattended(worker=worker, partitions=len(each), until=max(each))
        for worker, each in until.items()
    )


def _seconds(value: Any) -> timedelta | None:
    return None if value is None else timedelta(seconds=float(value))
