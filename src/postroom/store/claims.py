"""Claims: the records that may be sent now, read without a lock."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import text

from postroom.database.database import Database, Run, as_rows, transaction
from postroom.record import Key, Status
from postroom.store.base import Claim, HeldRecord, Pauses
from postroom.store.blocked_keys import BlockedKeys
from postroom.store.key_order import divide, divide_paused
from postroom.store.pauses import PausedRecords
from postroom.store.rows import (
    ANY_BLOCKED,
    PARTITION,
    POSITION,
    STATUS,
    WAS_DUE,
    columns,
    keys_of,
    to_record,
    within_partition,
)

PENDING: Final = Status.PENDING.value
BLOCKED: Final = 1
PAUSED: Final = 2
"""Whether any key is blocked, and whether anything is paused, added up in one column."""


class Claims:
    """Claims records. A follower of a blocked key is met once: it is parked on the way."""

    def __init__(
        self, database: Database, blocked_keys: BlockedKeys, paused_records: PausedRecords
    ) -> None:
        self.database = database
        self._blocked_keys = blocked_keys
        self._paused_records = paused_records
        self._any_blocked = False  # at the last claim
        n, sql = database, database.sql
        partitions = sql.rows("partitions", {"partition": "smallint", "floor": "bigint"})
        free = sql.not_among("r.position", "held")
        ready = f"r.ready AND {free} AND {within_partition('partitions', 'partitions.floor')}"
        due = f"""r.due_at <= {sql.now} AND {free}
            AND r.partition = partitions.partition ORDER BY r.due_at, r.position"""
        read = columns(sql.text, sql.identity)
        any_blocked = f"""CASE WHEN EXISTS (SELECT 1 FROM {n.blocked}) THEN {BLOCKED} ELSE 0 END
            + CASE WHEN EXISTS (SELECT 1 FROM {n.pauses}) THEN {PAUSED} ELSE 0 END AS any_blocked"""

        # The first records of each partition, and those whose time has come.
        self._ready_and_due = text(f"""SELECT {read}, {any_blocked}, 0 AS was_due
            FROM {sql.each(partitions, n.records, f"{ready} LIMIT :depth")}
            UNION ALL SELECT {read}, {any_blocked}, 1 AS was_due
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
        self._waiting_behind = text(f"""SELECT w.partition, count(*) = :ahead
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
        rows, blocked, pauses = await self._read(
            partitions=_partitions(tokens, floors or {}),
            depth=depth,
            held=self.database.sql.numbers(held),
        )
        if pauses.everything:
            return Claim(records=())
        # By position, each once: a bad row may be ready and due.
        found = [row for _, row in sorted({row[POSITION]: row for row in rows}.items())]
        typed = self.database.sql.typed
        pending = [row for row in found if row[STATUS] == PENDING]
        records = [to_record(row, tokens[row[PARTITION]], typed=typed) for row in pending]
        done = [row[POSITION] for row in found if row[STATUS] != PENDING]
        was_due = {row[POSITION] for row in found if row[WAS_DUE]}
        passing, followers = divide(records, was_due, blocked) if blocked else (records, [])
        passing, paused, behind = divide_paused(passing, pauses) if pauses else (passing, [], [])
        followers += behind
        if done or followers or paused:
            await self._set_aside(done, followers, paused)
        aside = [*followers, *paused]
        counts = Counter(map(itemgetter(PARTITION), found))
        full = {partition for partition, count in counts.items() if count >= depth}
        return Claim(
            records=tuple(passing),
            more=frozenset(full | {each.partition for each in aside}),
            reached=_reached([row for row in found if not row[WAS_DUE]], aside),
        )

    async def _read(self, **values: Any) -> tuple[Sequence[Any], dict[Key, int], Pauses]:
        """Read rows, and which of their keys are blocked and what is paused at the same moment."""
        if not self._any_blocked:
            rows = await self.database.fetch(self._ready_and_due, snapshot=True, **values)
            if not rows or not rows[0][ANY_BLOCKED]:
                return rows, {}, Pauses()

        async def read(run: Run) -> tuple[Sequence[Any], dict[Key, int], Pauses]:
            rows = await run(self._ready_and_due, **values)
            found = rows[0][ANY_BLOCKED] if rows else 0
            self._any_blocked = bool(found)
            keys = keys_of(rows) if found & BLOCKED else []
            blocked = await self._blocked_keys.look_up(run, keys)
            pauses = await self._paused_records.read(run) if found & PAUSED else Pauses()
            return rows, blocked, pauses

        return await self.database.transact(read, snapshot=True)

    async def waiting_behind(
        self, partitions: Collection[int], keys: Collection[Key], held: Collection[int]
    ) -> set[int]:
        """Return the partitions in which other keys wait behind these."""
        rows = await self.database.fetch(
            self._waiting_behind,
            snapshot=True,
            partitions=_partitions(partitions, {}),
            keys=as_rows(keys),
            held=self.database.sql.numbers(held),
            ahead=self._blocked_keys.AHEAD,
        )
        return {row.partition for row in rows if row.others_wait}

    @transaction
    async def _set_aside(
        self,
        run: Run,
        done: Collection[int],
        followers: Collection[HeldRecord],
        paused: Collection[HeldRecord],
    ) -> None:
        if paused:
            await self._paused_records.park(run, paused, [each.key for each in followers])
        await self._blocked_keys.park(run, followers)
        await self.database.run_at(run, self._take_out, done)


def _reached(ready: Sequence[Any], aside: Sequence[HeldRecord]) -> dict[int, int]:
    """Return the position up to which each partition was read, without what was set aside.

    A record that was set aside is parked, unless its key was released or its pause ended
    meanwhile. Then it is ready, and the next claim has to see it before later ones of its key.
    """
    reached = {row[PARTITION]: row[POSITION] for row in ready}
    for each in aside:
        if each.partition in reached:
            reached[each.partition] = min(reached[each.partition], each.position - 1)
    return reached


def _partitions(partitions: Collection[int], floors: Mapping[int, int]) -> str:
    rows = [f'{{"partition":{each},"floor":{floors.get(each, 0)}}}' for each in partitions]
    return f"[{','.join(rows)}]"
