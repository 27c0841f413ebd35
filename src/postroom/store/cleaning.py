"""Cleaning: delete what was delivered long ago, and repair what nobody would claim."""

from datetime import timedelta
from functools import partial
from typing import Any, Final

from sqlalchemy import text

from postroom.database.database import Database, Run, as_rows, transaction
from postroom.inbox.receipts import Receipts
from postroom.record import PARTITIONS, key_hash
from postroom.store.base import Cleaned
from postroom.store.blocked_keys import PARKED, BlockedKeys
from postroom.store.rows import key_of, keys_of
from postroom.store.settlement import Settlements

INBOX_MEMORY: Final = timedelta(days=30)
"""How long inbox rows are kept at least: longer than a delivery can be repeated."""


class Cleaning:
    """Cleans and repairs, one worker at a time."""

    def __init__(
        self, database: Database, blocked_keys: BlockedKeys, settlements: Settlements
    ) -> None:
        self.database = database
        self._blocked_keys = blocked_keys
        self._settlements = settlements
        self._inbox = Receipts(database.tables.inbox)
        n, sql = database, database.sql
        # Whether no other worker is cleaning.
        self._try_lock = text(sql.try_lock)
        # Some records in order, whether they are old, and whether they may be deleted.
        old = sql.after(":age")
        self._oldest = text(f"""SELECT position, created_at < {old} AS is_old,
            status = 'published' AND published_at < {old} AS deletable
            FROM {n.records} WHERE position > :after ORDER BY position LIMIT :limit""")
        # Workers that have not shown up for a day.
        self._delete_workers = text(
            f"DELETE FROM {n.workers} WHERE seen_until < {sql.after('-86400')}"
        )

        # Blocked keys whose blocking record is gone or settled, so that nobody would release them.
        self._stale_keys = text(f"""SELECT b.aggregate_type, b.aggregate_id FROM {n.blocked} b
            WHERE NOT EXISTS (SELECT 1 FROM {n.records} r
                WHERE r.position = b.position AND r.status <> 'published') LIMIT 1000""")
        # Records in a partition that does not exist.
        outside = "(partition < 0 OR partition >= :partitions) LIMIT 1000"
        columns = f"position, {sql.text('aggregate_type')} AS aggregate_type"
        columns += f", {sql.text('aggregate_id')} AS aggregate_id"
        self._outside = text(f"""SELECT * FROM (SELECT {columns}
            FROM {n.records} WHERE ready AND {outside}) AS ready
            UNION SELECT * FROM (SELECT {columns}
            FROM {n.records} WHERE due_at IS NOT NULL AND {outside}) AS due""")
        right = sql.rows("right_partitions", {"at": "bigint", "partition_": "smallint"})
        self._set_partition = text(f"""UPDATE {n.records}
            SET partition = right_partitions.partition_ FROM {right}
            WHERE position = right_partitions.at""")
        # Records whose due time is not a time; SQLite only.
        self._set_due = text(f"""UPDATE {n.records} SET due_at = {sql.now} WHERE due_at IS NOT NULL
            AND (typeof(due_at) <> 'text' OR julianday(due_at) IS NULL) RETURNING position""")
        # Parked records whose key is not blocked: the first of each key.
        self._orphans = text(f"""SELECT min(r.position) AS position, r.aggregate_id,
            coalesce(r.aggregate_type, '') AS aggregate_type
            FROM {n.records} r LEFT JOIN {n.blocked} b ON b.aggregate_id = r.aggregate_id
                AND b.aggregate_type = coalesce(r.aggregate_type, '')
            WHERE {PARKED} AND (b.position IS NULL OR b.position = r.position)
            GROUP BY coalesce(r.aggregate_type, ''), r.aggregate_id,
                CASE WHEN r.aggregate_id IS NULL THEN r.position END LIMIT 1000""")
        # Have them claimed now, so that they are released in order.
        self._due_now = text(f"""UPDATE {n.records} SET due_at = {sql.now}, ready = false
            WHERE position {sql.among("positions")}""")

    async def clean(self, *, older_than: timedelta, after: int = 0, limit: int = 1000) -> Cleaned:
        """Look at some records after a position, and delete those delivered longer ago.

        Does nothing while another worker cleans up. At the end of a round, old inbox rows go too.
        """
        cleaned = await self._delete_old(older_than, after, limit)
        if cleaned.last is None:
            engine, memory = self.database.engine, max(older_than, INBOX_MEMORY)
            begin = partial(self.database.sql.begin, engine, snapshot=False)
            await self._inbox.clean(engine.dialect, memory, begin)
        return cleaned

    @transaction
    async def _delete_old(self, run: Run, older_than: timedelta, after: int, limit: int) -> Cleaned:
        if not await self._is_alone(run):
            return Cleaned(deleted=0, last=None)
        age = -older_than.total_seconds()
        rows = await run(self._oldest, age=age, after=after, limit=limit)
        deleted = [row.position for row in rows if row.deletable]
        await self.database.run_at(run, self._settlements.delete, deleted)
        await run(self._delete_workers)
        more = len(rows) == limit and bool(rows[-1].is_old)
        return Cleaned(deleted=len(deleted), last=rows[-1].position if more else None)

    @transaction
    async def repair(self, run: Run) -> int:
        """Repair records that nobody would ever claim, as an edit by hand may leave them."""
        if not await self._is_alone(run):
            return 0
        stale = await self._blocked_keys.lock(run, keys_of(await run(self._stale_keys)))
        await self._blocked_keys.release(run, stale)
        outside = await run(self._outside, partitions=PARTITIONS)
        right = as_rows({"at": row.position, "partition_": _partition(row)} for row in outside)
        await run(self._set_partition, right_partitions=right)
        timeless = 0 if self.database.sql.typed else len(await run(self._set_due))
        orphans = await run(self._orphans)
        keyed = [row for row in orphans if row.aggregate_id is not None]
        await self._blocked_keys.block(run, {key_of(row): row.position for row in keyed})
        await self.database.run_at(run, self._due_now, [row.position for row in orphans])
        return len(outside) + timeless + len(stale) + len(orphans)

    async def _is_alone(self, run: Run) -> bool:
        [[locked]] = await run(self._try_lock, table=f"postroom {self.database.records}")
        return bool(locked)


def _partition(row: Any) -> int:
    """Return the partition that a row belongs in."""
    if row.aggregate_id is None:
        return int(row.position % PARTITIONS)
    return key_hash(row.aggregate_type, row.aggregate_id) % PARTITIONS
