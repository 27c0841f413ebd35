"""Claims: the records that may be sent now, read without a lock."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import text

from postroom.record import Key, Status
from postroom.store.base import Claim, HeldRecord
from postroom.store.blocked_keys import BlockedKeys
from postroom.store.database import (
    Database,
    Dialect,
    Run,
    as_rows,
    keys_of,
    transaction,
    within_partition,
)
from postroom.store.key_order import divide
from postroom.store.rows import to_record

NUMBERS: Final = ("position", "partition", "event_version", "retry_count", "max_retries")
TEXTS: Final = ("event_type", "aggregate_type", "aggregate_id", "payload", "headers", "status")
TIMES: Final = ("occurred_at", "created_at")


class Claims:
    """Claims records. A follower of a blocked key is met once: it is parked on the way."""

    def __init__(self, database: Database, blocked_keys: BlockedKeys) -> None:
        self.database = database
        self._blocked_keys = blocked_keys
        n, sql = database, database.sql
        partitions = sql.rows("partitions", {"partition": "smallint", "floor": "bigint"})
        free = sql.not_among("r.position", "held")
        ready = f"r.ready AND {free} AND {within_partition('partitions', 'partitions.floor')}"
        due = f"""r.due_at <= {sql.now} AND {free}
            AND r.partition = partitions.partition ORDER BY r.due_at, r.position"""
        # Whether any key is blocked at all, which spares most claims a second statement.
        columns = f"{_columns(sql)}, EXISTS (SELECT 1 FROM {n.blocked}) AS any_blocked"

        # The first records of each partition, and those whose time has come.
        self._ready_and_due = text(f"""SELECT {columns}, 0 AS was_due
            FROM {sql.each(partitions, n.records, f"{ready} LIMIT :depth")}
            UNION ALL SELECT {columns}, 1 AS was_due
            FROM {sql.each(partitions, n.records, f"{due} LIMIT :depth")}""")
        # Records that were marked as done by hand, but are still in the index of ready ones.
        self._take_out = text(f"""UPDATE {n.records} SET ready = false, due_at = NULL
            WHERE position {sql.among("positions")} AND status <> 'pending'""")

        # The partitions in which records of other keys wait behind those of some keys, or in which
        # there are more of those keys than one look covers.
        keys = sql.rows("keys", {"aggregate_type": "text", "aggregate_id": "text"})
        ahead = f"r.ready AND {free} AND {within_partition('partitions', '0')} LIMIT :ahead"
        theirs = f"""(coalesce(w.aggregate_type, ''), w.aggregate_id)
            IN (SELECT keys.aggregate_type, keys.aggregate_id FROM {keys})"""
        self._crowded = text(f"""SELECT w.partition, count(*) = :ahead
                OR count(CASE WHEN {theirs} THEN NULL ELSE 1 END) > 0 AS others_wait
            FROM {sql.each(partitions, n.records, ahead)} GROUP BY w.partition""")

    async def claim(
        self,
        tokens: Mapping[int, int],
        *,
        depth: int,
        held: Collection[int] = (),
        floors: Mapping[int, int] | None = None,
    ) -> Claim:
        """Read up to `depth` records of each partition, except those `held` (by position) already.

        A floor is a position at or below which the caller knows that a partition has nothing new.
        """
        numbers, typed = self.database.sql.numbers(held), self.database.sql.typed
        partitions = _partitions(tokens, floors or {})
        async with self.database.transaction(snapshot=True) as run:
            found = await run(self._ready_and_due, partitions=partitions, depth=depth, held=numbers)
            rows = sorted({row.position: row for row in found}.values(), key=_position)
            keys = keys_of(rows) if rows and rows[0].any_blocked else []
            blocked = await self._blocked_keys.look_up(run, keys)
        pending = [row for row in rows if row.status == Status.PENDING]
        records = [to_record(row, tokens[row.partition], typed=typed) for row in pending]
        was_due = {row.position for row in pending if row.was_due}
        passing, followers = divide(records, was_due, blocked)
        done = [row.position for row in rows if row.status != Status.PENDING]
        if done or followers:
            await self._set_aside(done, followers)
        counts = Counter(row.partition for row in rows)
        full = {partition for partition, count in counts.items() if count >= depth}
        more = full | {each.partition for each in followers}
        reached = {row.partition: row.position for row in rows if not row.was_due}
        return Claim(records=tuple(passing), more=frozenset(more), reached=reached)

    async def crowded(
        self, partitions: Collection[int], keys: Collection[Key], held: Collection[int]
    ) -> set[int]:
        """Return the partitions in which other keys wait behind these."""
        async with self.database.transaction(snapshot=True) as run:
            rows = await run(
                self._crowded,
                partitions=_partitions(partitions, {}),
                keys=as_rows(keys),
                held=self.database.sql.numbers(held),
                ahead=self._blocked_keys.AHEAD,
            )
            return {row.partition for row in rows if row.others_wait}

    @transaction
    async def _set_aside(
        self, run: Run, done: Collection[int], followers: Collection[HeldRecord]
    ) -> None:
        await self._blocked_keys.park(run, followers)
        await self.database.run_at(run, self._take_out, done)


def _columns(sql: Dialect) -> str:
    """List what a claim reads, so that no value stops it: not even a time that Python lacks."""
    numbers = [f"w.{name}" for name in NUMBERS]
    texts = [f"{sql.text(f'w.{name}')} AS {name}" for name in TEXTS]
    known = "BETWEEN '0001-01-02' AND '9999-12-30'"
    times = [f"CASE WHEN w.{name} {known} THEN w.{name} END AS {name}" for name in TIMES]
    return ", ".join([*numbers, f"{sql.identity('w.id')} AS id", *texts, *times])


def _partitions(partitions: Collection[int], floors: Mapping[int, int]) -> str:
    return as_rows({"partition": each, "floor": floors.get(each, 0)} for each in partitions)


def _position(row: Any) -> int:
    return int(row.position)
