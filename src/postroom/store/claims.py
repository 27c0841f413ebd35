"""Claims: the records that may be sent now, read without a lock."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from postroom.record import Key, Status
from postroom.store.base import Claim, HeldRecord
from postroom.store.blocked_keys import BlockedKeys
from postroom.store.database import Database, Dialect, as_rows
from postroom.store.key_order import divide
from postroom.store.rows import to_record

NUMBERS: Final = ("position", "partition", "event_version", "retry_count", "max_retries")
TEXTS: Final = ("event_type", "aggregate_type", "aggregate_id", "payload", "headers", "status")
TIMES: Final = ("occurred_at", "created_at")


class Claims:
    """Claims records. A follower of a blocked key is met once: it is parked on the way."""

    def __init__(self, database: Database, blocked_keys: BlockedKeys) -> None:
        self._database = database
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
        values = {
            "partitions": _partitions(tokens, floors or {}),
            "depth": depth,
            "held": self._database.sql.numbers(held),
        }

        async def work(connection: AsyncConnection) -> tuple[Sequence[Any], dict[Key, int]]:
            found = await self._database.run(connection, self._ready_and_due, **values)
            rows = sorted({row.position: row for row in found}.values(), key=_position)
            keys = _keys(rows) if rows and rows[0].any_blocked else []
            return rows, await self._blocked_keys.look_up(connection, keys)

        rows, blocked = await self._database.read(work)
        typed = self._database.sql.typed
        pending = [row for row in rows if row.status == Status.PENDING]
        records = [to_record(row, tokens[row.partition], typed=typed) for row in pending]
        was_due = {row.position for row in pending if row.was_due}
        passing, followers = divide(records, was_due, blocked)
        done = [row.position for row in rows if row.status != Status.PENDING]
        if done or followers:
            await self._set_aside(done, followers)
        more = _full_partitions(rows, depth) | {each.partition for each in followers}
        reached = {row.partition: row.position for row in rows if not row.was_due}
        return Claim(records=tuple(passing), more=frozenset(more), reached=reached)

    async def crowded(
        self, partitions: Collection[int], keys: Collection[Key], held: Collection[int]
    ) -> set[int]:
        """Return the partitions in which other keys wait behind these."""
        values = {
            "partitions": _partitions(partitions, {}),
            "keys": as_rows(keys),
            "held": self._database.sql.numbers(held),
            "ahead": self._blocked_keys.AHEAD,
        }

        async def work(connection: AsyncConnection) -> set[int]:
            rows = await self._database.run(connection, self._crowded, **values)
            return {row.partition for row in rows if row.others_wait}

        return await self._database.read(work)

    async def _set_aside(self, done: Collection[int], followers: Collection[HeldRecord]) -> None:
        async def work(connection: AsyncConnection) -> None:
            await self._blocked_keys.park(connection, followers)
            await self._database.run_at(connection, self._take_out, done)

        await self._database.write(work)


def within_partition(source: str, floor: str) -> str:
    """Write the condition that reads a partition in order, from the index that is made for it.

    As a range the partition is part of the order, which the primary key cannot give. With an `=`
    the planner may walk that instead, through everything that was ever delivered.
    """
    return f"""(r.partition, r.position) > ({source}.partition, {floor})
        AND r.partition <= {source}.partition ORDER BY r.partition, r.position"""


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


def _keys(rows: Sequence[Any]) -> list[Key]:
    return list(
        {Key(r.aggregate_type or "", r.aggregate_id) for r in rows if r.aggregate_id is not None}
    )


def _full_partitions(rows: Sequence[Any], depth: int) -> set[int]:
    """Return the partitions that as many rows came from as were asked for."""
    counts: dict[int, int] = {}
    for row in rows:
        counts[row.partition] = counts.get(row.partition, 0) + 1
    return {partition for partition, count in counts.items() if count >= depth}
