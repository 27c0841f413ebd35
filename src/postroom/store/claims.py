"""Claims: the records that may be sent now, read without a lock."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import text

from postroom.database.database import Database, Run, as_rows, transaction
from postroom.record import Key, Status
from postroom.store.base import Claim, HeldRecord, Pauses, Verdict
from postroom.store.blocked_keys import BlockedKeys, by_key
from postroom.store.key_order import divide
from postroom.store.rows import (
    ANY_BLOCKED,
    PARTITION,
    POSITION,
    SERVER,
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
PREPARED: Final = ""
"""Among the transactions that write: some are prepared, and have lost the names that they had."""

_Found = tuple[Sequence[Any], Mapping[Key, int], Set[Key], Pauses]
"""Rows, which records block their keys, the keys of which nothing does any more, and the pauses."""


class Claims:
    """Claims records. A follower of a blocked key is met once: it is parked on the way."""

    def __init__(self, database: Database, blocked_keys: BlockedKeys) -> None:
        self.database = database
        self._blocked_keys = blocked_keys
        self._any_blocked = False  # at the last claim
        n, sql = database, database.sql
        partitions = sql.rows("partitions", {"partition": "smallint", "floor": "bigint"})
        free = sql.not_among(sql.identity("r.id"), "held", "uuid")
        ready = f"r.ready AND {free} AND {within_partition('partitions', 'partitions.floor')}"
        due = f"""r.due_at <= {sql.now} AND {free}
            AND r.status = 'pending' AND r.partition = partitions.partition
            ORDER BY r.due_at, r.position"""
        read = columns(sql.text, sql.identity)
        any_blocked = f"""CASE WHEN EXISTS (SELECT 1 FROM {n.blocked}) THEN {BLOCKED} ELSE 0 END
            + CASE WHEN EXISTS (SELECT 1 FROM {n.pauses}) THEN {PAUSED} ELSE 0 END AS any_blocked"""

        # The first records of each partition, and those whose time has come.
        more = f"{any_blocked}, {n.server} AS server"
        self._ready_and_due = text(f"""SELECT {read}, {more}, 0 AS was_due
            FROM {sql.each(partitions, n.records, f"{ready} LIMIT :depth")}
            UNION ALL SELECT {read}, {more}, 1 AS was_due
            FROM {sql.each(partitions, n.records, f"{due} LIMIT :depth")}""")
        # Who may still commit a record with a lower position than others have.
        self._writers = text(sql.writers(n.records))
        # Records that were marked as done by hand, but are still in the index of ready ones.
        self._take_out = text(f"""UPDATE {n.records} SET ready = false, due_at = NULL
            WHERE {n.chosen} AND status <> 'pending'""")

        # Those that were postponed, not quarantined, and are due within a minute: due now.
        postponed = f"""r.due_at > {sql.now} AND r.due_at < {sql.after("60")}
            AND r.status = 'pending' AND r.partition = partitions.partition AND r.retry_count = 0
            AND r.error_message NOT LIKE '{Verdict.QUARANTINED}%' {sql.skip_locked}"""
        found = f"SELECT w.position FROM {sql.each(partitions, n.records, postponed)}"
        self._retry_postponed = text(f"""UPDATE {n.records} SET due_at = {sql.now}
            WHERE position {sql.within(found)} AND due_at IS NOT NULL""")

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
        held: Collection[HeldRecord] = (),
        floors: Mapping[int, int] | None = None,
    ) -> Claim:
        """Read up to `depth` records of each partition, except those that are held already.

        A floor is a position at or below which the caller knows that a partition has nothing new,
        and never will have.
        """
        rows, blocked, stale, pauses = await self._read(
            partitions=_partitions(tokens, floors or {}),
            depth=depth,
            held=self.database.sql.numbers([each.id for each in held if each.partition in tokens]),
        )
        if pauses.everything:  # nothing is set aside: if it ends at once, all has to be read again
            return Claim(records=(), reached=dict.fromkeys(tokens, 0))
        # By position, each once: a bad row may be ready and due.
        found = [row for _, row in sorted({row[POSITION]: row for row in rows}.items())]
        typed = self.database.sql.typed
        records = [to_record(row, tokens[row[PARTITION]], typed=typed) for row in found]
        done = {each for row, each in zip(found, records, strict=True) if row[STATUS] != PENDING}
        if done:
            records = [each for each in records if each not in done]
        was_due = {row[POSITION] for row in found if row[WAS_DUE]}
        passing, followers, paused = divide(records, was_due, blocked, pauses)
        late = [each for each in followers if each.key in stale]
        if done or followers or paused:
            await self._set_aside(done, followers, paused, by_key(late).keys())
        aside = [*followers, *paused]
        counts = Counter(map(itemgetter(PARTITION), found))
        full = {partition for partition, count in counts.items() if count >= depth}
        return Claim(
            records=tuple(passing),
            more=frozenset(full | {each.partition for each in aside}),
            reached={
                **_reached([row for row in found if not row[WAS_DUE]], aside),
                **{each.partition: 0 for each in late},  # one may have been parked long ago
            },
            server=rows[0][SERVER] if rows else None,
        )

    async def _read(self, **values: Any) -> _Found:
        """Read rows, and which of their keys are blocked and what is paused at the same moment."""
        if not self._any_blocked:
            rows = await self.database.fetch(self._ready_and_due, snapshot=True, **values)
            if not rows or not rows[0][ANY_BLOCKED]:
                return rows, {}, frozenset(), Pauses()

        async def read(run: Run) -> _Found:
            rows = await run(self._ready_and_due, **values)
            found = rows[0][ANY_BLOCKED] if rows else 0
            self._any_blocked = bool(found)
            keys = keys_of(rows) if found & BLOCKED else []
            blocked, stale = await self._blocked_keys.look_up(run, keys)
            pauses = await self._blocked_keys.pauses(run) if found & PAUSED else Pauses()
            return rows, blocked, stale, pauses

        return await self.database.transact(read, snapshot=True)

    async def writers(self) -> frozenset[str]:
        """Return the transactions that may hold positions and have not committed."""
        if not self.database.sql.shares_work:  # SQLite keeps no dead rows, and needs no floors
            return frozenset({PREPARED})
        rows = await self.database.fetch(self._writers, snapshot=True)
        return frozenset(row.writer for row in rows)

    async def retry_postponed(self, partitions: Collection[int]) -> None:
        """Have records tried again that another worker postponed: this one may know what to do."""
        await self.database.fetch(self._retry_postponed, partitions=_partitions(partitions, {}))

    async def waiting_behind(
        self, partitions: Collection[int], keys: Collection[Key], held: Collection[HeldRecord]
    ) -> set[int]:
        """Return the partitions in which other keys wait behind these."""
        rows = await self.database.fetch(
            self._waiting_behind,
            snapshot=True,
            partitions=_partitions(partitions, {}),
            keys=as_rows(keys),
            held=self.database.sql.numbers([each.id for each in held]),
            ahead=self._blocked_keys.AHEAD,
        )
        return {row.partition for row in rows if row.others_wait}

    @transaction
    async def _set_aside(
        self,
        run: Run,
        done: Collection[HeldRecord],
        followers: Collection[HeldRecord],
        paused: Collection[HeldRecord],
        stale: Set[Key],
    ) -> None:
        if paused:
            await self._blocked_keys.park_paused(run, paused, followers)
        await self._blocked_keys.park(run, followers)
        await self.database.run_on(run, self._take_out, done)
        # Keys whose blocking record is done. One record, as operators do: see `release`.
        await self._blocked_keys.release(run, stale, batch=1)


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
