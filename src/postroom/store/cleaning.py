"""Deletes old records, and repairs rows that nobody would claim."""

from datetime import timedelta
from typing import Any

from sqlalchemy import text

from postroom.database.database import Database, Run, as_rows, transaction
from postroom.inbox.receipts import BATCH
from postroom.record import PARTITIONS, key_hash
from postroom.store.base import Cleaned
from postroom.store.blocked_keys import PARKED, BlockedKeys
from postroom.store.rows import key_of, keys_of


class Cleaning:
    """Cleans and repairs, one worker at a time."""

    def __init__(self, database: Database, blocked_keys: BlockedKeys) -> None:
        self.database = database
        self._blocked_keys = blocked_keys
        n, sql = database, database.sql
        # Whether no other worker is cleaning.
        self._try_lock = text(sql.try_lock)
        # Some records in order, whether they are old, and whether they may be deleted.
        old = sql.after(":age")
        self._oldest = text(f"""SELECT position, created_at < {old} AS is_old,
            status = 'published' AND published_at < {old} AS deletable
            FROM {n.records} WHERE position > :after ORDER BY position LIMIT :limit""")
        # Not those that an operator replays at the same moment.
        self._delete = text(f"""DELETE FROM {n.records}
            WHERE position {sql.among("positions")} AND status = 'published' RETURNING position""")
        self._delete_attempts = text(f"""DELETE FROM {n.attempts}
            WHERE position {sql.among("positions")}""")
        # Workers that have not shown up for a day.
        self._delete_workers = text(f"""DELETE FROM {n.workers}
            WHERE seen_until < {sql.after("-86400")}
            AND coalesce(reported_at, seen_until) < {sql.after("-86400")}""")
        # The oldest inbox rows, without those that another worker deletes at the same moment.
        self._old_receipts = text(f"""DELETE FROM {n.inbox}
            WHERE (message_id, consumer) IN (SELECT message_id, consumer FROM {n.inbox}
                WHERE received_at < {old} ORDER BY received_at LIMIT :limit {sql.skip_locked})
            RETURNING 1 AS deleted""")

        # Blocked keys whose blocking record is gone or settled, so that nobody would release them.
        self._stale_keys = text(f"""SELECT b.aggregate_type, b.aggregate_id FROM {n.blocked} b
            WHERE NOT EXISTS (SELECT 1 FROM {n.records} r
                WHERE r.position = b.position AND r.status <> 'published') LIMIT 1000""")
        # Records in a partition that does not exist.
        outside = f"""SELECT * FROM (SELECT position, {sql.text("aggregate_id")} AS aggregate_id,
                {sql.text("aggregate_type")} AS aggregate_type FROM {n.records}
            WHERE (partition < 0 OR partition >= :partitions) AND"""
        self._outside = text(f"""{outside} ready LIMIT 1000) AS ready
            UNION {outside} due_at IS NOT NULL AND status = 'pending' LIMIT 1000) AS due""")
        right = sql.rows("right_partitions", {"at": "bigint", "partition_": "smallint"})
        self._set_partition = text(f"""UPDATE {n.records}
            SET partition = right_partitions.partition_ FROM {right}
            WHERE position = right_partitions.at""")
        # Records whose due time is not a time; SQLite only.
        self._set_due = text(f"""UPDATE {n.records} SET due_at = {sql.now} WHERE due_at IS NOT NULL
            AND status = 'pending' AND (typeof(due_at) <> 'text' OR julianday(due_at) IS NULL)
            RETURNING position""")
        # Parked records that are not paused and whose key is not blocked: the first of each key.
        paused = f"""SELECT 1 FROM {n.pauses} p WHERE p.event_type IN ('', r.event_type)
            AND (p.aggregate_id = '' OR (p.aggregate_id = r.aggregate_id
                AND p.aggregate_type = coalesce(r.aggregate_type, '')))"""
        unheld = f"""SELECT min(r.position) FROM {n.records} r
            LEFT JOIN {n.blocked} b ON b.aggregate_id = r.aggregate_id
                AND b.aggregate_type = coalesce(r.aggregate_type, '')
            WHERE {PARKED} AND (b.position IS NULL OR b.position = r.position)
                AND NOT EXISTS ({paused})
            GROUP BY coalesce(r.aggregate_type, ''), r.aggregate_id,
                CASE WHEN r.aggregate_id IS NULL THEN r.position END LIMIT :limit"""
        self._unheld = text(f"""SELECT position, {sql.identity("id")} AS id, aggregate_id,
            coalesce(aggregate_type, '') AS aggregate_type
            FROM {n.records} WHERE position {sql.within(unheld)}""")
        # Refusals of records that are gone.
        gone = f"""SELECT a.id FROM {n.attempts} a WHERE NOT EXISTS (
            SELECT 1 FROM {n.records} r WHERE r.position = a.position) LIMIT 10000"""
        self._forget_gone = text(f"DELETE FROM {n.attempts} WHERE id {sql.within(gone)}")
        # Ready rather than due: a claim takes ready records in order, and earlier ones of the key
        # may be ready, where a worker had claimed them before the pause.
        self._make_ready = text(f"""UPDATE {n.records} SET ready = true, due_at = NULL
            WHERE {n.chosen} AND status = 'pending'""")

    async def clean(self, *, older_than: timedelta, after: int = 0, limit: int = 1000) -> Cleaned:
        """Look at some records after a position, and delete those delivered longer ago.

        Does nothing while another worker cleans up. At the end of a round, old inbox rows go too.
        """
        cleaned = await self._delete_old(older_than, after, limit)
        # Inbox rows are kept for 30 days at least: longer than a delivery can be repeated. On the
        # clean-up's own connection: `Receipts.clean` would open another one.
        age, batch = -max(older_than, timedelta(days=30)).total_seconds(), BATCH
        while cleaned.last is None and batch == BATCH:  # each in a transaction of its own
            batch = len(await self.database.fetch(self._old_receipts, age=age, limit=BATCH))
        return cleaned

    @transaction
    async def _delete_old(self, run: Run, older_than: timedelta, after: int, limit: int) -> Cleaned:
        if not await self._is_alone(run):
            return Cleaned(deleted=0, last=None)
        await run(self._delete_workers)
        return await self.delete_delivered(run, older_than, after, limit)

    async def delete_delivered(
        self, run: Run, older_than: timedelta, after: int, limit: int = 1000
    ) -> Cleaned:
        """Look at some records after a position, and delete those delivered longer ago."""
        age = -older_than.total_seconds()
        rows = await run(self._oldest, age=age, after=after, limit=limit)
        old = [row.position for row in rows if row.deletable]
        deleted = await run(self._delete, positions=self.database.sql.numbers(old))
        gone = [row.position for row in deleted]
        await self.database.run_at(run, self._delete_attempts, gone)
        more = len(rows) == limit and bool(rows[-1].is_old)
        return Cleaned(deleted=len(deleted), last=rows[-1].position if more else None)

    @transaction
    async def repair(self, run: Run) -> int:
        """Repair records that nobody would ever claim, as an edit by hand may leave them.

        Returns how many. Deletes the refusals of records that are gone.
        """
        if not await self._is_alone(run):
            return 0
        await run(self._forget_gone)
        stale = await self._blocked_keys.lock(run, keys_of(await run(self._stale_keys)))
        await self._blocked_keys.release(run, stale, batch=1)
        outside = await run(self._outside, partitions=PARTITIONS)
        right = as_rows({"at": row.position, "partition_": _partition(row)} for row in outside)
        await run(self._set_partition, right_partitions=right)
        timeless = 0 if self.database.sql.typed else len(await run(self._set_due))
        return len(outside) + timeless + len(stale) + await self.release_unheld(run)

    async def release_unheld(self, run: Run, limit: int = 1000) -> int:
        """Have parked records delivered that nothing holds back any more, such as a pause.

        Returns how many were made ready: the first of each key. Call it until it returns 0.
        """
        unheld = await run(self._unheld, limit=limit)
        blocked = await self._blocked_keys.lock_records(run, keys_of(unheld), unheld)
        # Not where an earlier record of the key has come to block it since the look.
        free = [row for row in unheld if blocked.get(key_of(row), row.position) == row.position]
        keyed = [row for row in free if row.aggregate_id is not None]
        await self._blocked_keys.block(run, {key_of(row): row for row in keyed})
        await self.database.run_on(run, self._make_ready, free)
        return len(free)

    async def _is_alone(self, run: Run) -> bool:
        [[locked]] = await run(self._try_lock, table=f"postroom {self.database.records}")
        return bool(locked)


def _partition(row: Any) -> int:
    """Return the partition that a row belongs in."""
    if row.aggregate_id is None:
        return int(row.position % PARTITIONS)
    return key_hash(row.aggregate_type, row.aggregate_id) % PARTITIONS
