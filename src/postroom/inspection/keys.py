"""Keys: which are blocked, by which record, and how many records wait."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from postroom.database.database import Run
from postroom.inspection.pauses import Changes, Pause
from postroom.inspection.reading import Reader, time_of
from postroom.inspection.records import RecordSummary, summary, summary_columns
from postroom.inspection.sources import Source, Sources
from postroom.inspection.waiting import Blocker, Surroundings, Wait, described, wait_of
from postroom.inspection.wording import counted, key_text
from postroom.inspection.workers import Workers
from postroom.record import PARTITIONS, Key, key_hash
from postroom.store.blocked_keys import PARKED
from postroom.store.rows import key_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedKey:
    """A blocked key: its later records wait for the blocking record."""

    key: Key
    blocker: RecordSummary | None
    """The blocking record; None if it was deleted (a worker's next clean-up releases the key)."""
    since: datetime
    next_try: datetime | None
    waiting: int
    """How many records wait behind the blocking record."""
    at_least: bool
    """Whether more may wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedKeysPage:
    """A page of blocked keys, those with the most waiting records first."""

    keys: tuple[BlockedKey, ...]
    total: int
    cursor: int | None
    """The `cursor` of the next page; None at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReport:
    """The undelivered records of a key, and what they wait for. Its `str` is a sentence."""

    key: Key
    blocked: BlockedKey | None
    first: RecordSummary | None
    """The blocking record, or else the first pending one; None if there is none."""
    wait: Wait | None
    """What `first` waits for."""
    waiting: int
    """How many records come after `first`."""
    at_least: bool
    now: datetime

    def __str__(self) -> str:
        name = key_text(self.key)
        if self.first is None or self.wait is None:
            return f"{name} has no record that waits."
        rest = counted(self.waiting, "record", at_least=self.at_least)
        behind = f"; {rest} {'waits' if self.waiting == 1 else 'wait'} behind it"
        if self.blocked is not None:
            how = described(self.first, self.now)
            return f"{name} is blocked by {self.first} {how}{behind if self.waiting else ''}."
        return f"{name} is not blocked. {self.first} is next{behind if self.waiting else ''}."


class Keys:
    """Reads keys."""

    def __init__(self, reader: Reader, changes: Changes, workers: Workers) -> None:
        self._reader = reader
        self._changes, self._workers = changes, workers
        n, sql = reader.database, reader.database.sql
        columns = summary_columns(sql)
        self._blocker = text(f"""SELECT b.position AS blocker, b.blocked_at
            FROM {n.blocked} b WHERE b.aggregate_type = :aggregate_type
                AND b.aggregate_id = :aggregate_id""")
        self._record = text(f"""SELECT {columns} FROM {n.records} w
            WHERE w.position = :position AND w.status <> 'published'""")

        # The pending records of a key, after a position.
        source = Sources(reader).select(Source.KEY, newest_first=False)
        pending = f"""({source}) AS w WHERE w.aggregate_id = :aggregate_id
            AND coalesce(w.aggregate_type, '') = :aggregate_type AND w.status = 'pending'"""
        first = f"(SELECT w.position FROM {pending} ORDER BY w.position LIMIT 1) AS first"
        one = sql.each(first, n.records, "r.position = first.position LIMIT 1")
        self._first = text(f"SELECT {columns} FROM {one}")
        self._count = text(f"""SELECT count(*) AS number FROM {pending}
            AND w.position < :before""")

        # Blocked keys, and how many records of each are parked; without a join, which the planner
        # may do by going through all keys for each. The blocker of a paused key is parked, too.
        rows = f"""SELECT aggregate_type, aggregate_id, position AS blocker, blocked_at,
                NULL AS parked FROM {n.blocked} UNION ALL
            SELECT coalesce(aggregate_type, ''), aggregate_id, NULL, NULL, position
            FROM (SELECT r.aggregate_type, r.aggregate_id, r.position FROM {n.records} r
                WHERE {PARKED} ORDER BY r.aggregate_id, r.position
                LIMIT {reader.search_limit}) AS parked"""
        groups = f"""SELECT aggregate_type, aggregate_id, max(blocker) AS blocker,
                max(blocked_at) AS blocked_at, sum(count(parked)) OVER () AS all_parked,
                count(parked) - CASE WHEN min(parked) = max(blocker) THEN 1 ELSE 0 END AS waiting
            FROM ({rows}) AS keyed GROUP BY aggregate_type, aggregate_id"""
        self._blocked = text(f"""SELECT * FROM ({groups}) AS keys WHERE blocker IS NOT NULL
            ORDER BY waiting DESC, blocked_at, aggregate_type, aggregate_id
            LIMIT :limit OFFSET :offset""")
        chosen = f"NOT ({sql.not_among('blocker', 'positions')})"
        self._behind = text(f"""SELECT coalesce(sum(waiting), 0) AS number
            FROM ({groups}) AS keys WHERE blocker IS NOT NULL AND {chosen}""")
        self._total = text(f"SELECT count(*) AS blocked FROM {n.blocked}")
        self._records = text(f"""SELECT {columns} FROM {n.records} w
            WHERE w.position {sql.among("positions")}""")

    async def blocked(self, *, cursor: int | None, limit: int) -> BlockedKeysPage:
        """Return blocked keys, those with the most waiting records first."""
        offset = cursor or 0
        async with self._reader.ask("the blocked keys") as run:
            pauses = await self._changes.pauses(run)
            [total] = await run(self._total)
            rows = await run(self._blocked, limit=limit, offset=offset)
            positions = self._reader.database.sql.numbers([row.blocker for row in rows])
            found = await run(self._records, positions=positions)
        records = {row.position: row for row in found}
        at_least = bool(rows and rows[0].all_parked >= self._reader.search_limit)
        keys = (_blocked_key(row, records.get(row.blocker), pauses, at_least) for row in rows)
        more = offset + limit if offset + len(rows) < total.blocked else None
        return BlockedKeysPage(keys=tuple(keys), total=total.blocked, cursor=more)

    async def waiting_behind(self, positions: Collection[int]) -> int:
        """Count the records that wait behind those at some positions, to about 100,000."""
        numbers = self._reader.database.sql.numbers(positions)
        async with self._reader.ask("what waits behind records") as run:
            [row] = await run(self._behind, positions=numbers)
        return int(row.number)

    async def report(self, key: Key) -> KeyReport:
        """Return what is not delivered of a key, and what it waits for."""
        async with self._reader.ask(f"key {key_text(key)}") as run:
            pauses = await self._changes.pauses(run)
            blocker = await self.blocker(run, key, pauses)
            first = (
                blocker.record if blocker is not None else await self._first_of(run, key, pauses)
            )
            count = 0 if first is None else await self.count(run, key, after=first.position)
            around = Surroundings(
                now=await self._reader.now(run),
                partition=key_hash(*key) % PARTITIONS,
                pauses=pauses,
                workers=await self._workers.read(run),
                blocker=blocker,
            )
        at_least = count >= self._reader.search_limit
        return KeyReport(
            key=key,
            blocked=None if blocker is None else _blocked(key, blocker, count, at_least=at_least),
            first=first,
            wait=None if first is None else wait_of(first, around),
            waiting=count,
            at_least=at_least,
            now=around.now,
        )

    async def blocker(self, run: Run, key: Key, pauses: tuple[Pause, ...]) -> Blocker | None:
        """Return the record that blocks a key."""
        for row in await run(self._blocker, **key._asdict()):
            found = await run(self._record, position=row.blocker)
            record = summary(found[0], pauses) if found else None
            return Blocker(record=record, position=row.blocker, since=time_of(row.blocked_at))
        return None

    async def count(self, run: Run, key: Key, *, after: int, before: int = 2**62) -> int:
        """Count the pending records of a key between two positions, to about 100,000."""
        [row] = await run(self._count, **_values(key, after), before=before)
        return int(row.number)

    async def _first_of(
        self, run: Run, key: Key, pauses: tuple[Pause, ...]
    ) -> RecordSummary | None:
        rows = await run(self._first, **_values(key, after=0))
        return summary(rows[0], pauses) if rows else None


def _values(key: Key, after: int) -> dict[str, Any]:
    """Return the values of a statement that reads the pending records of a key."""
    return {**key._asdict(), "partition": key_hash(*key) % PARTITIONS, "after": after}


def _blocked_key(row: Any, found: Any, pauses: tuple[Pause, ...], at_least: bool) -> BlockedKey:
    record = None if found is None else summary(found, pauses)
    blocker = Blocker(record=record, position=row.blocker, since=time_of(row.blocked_at))
    return _blocked(key_of(row), blocker, row.waiting, at_least=at_least)


def _blocked(key: Key, blocker: Blocker, waiting: int, *, at_least: bool) -> BlockedKey:
    record = blocker.record
    return BlockedKey(
        key=key,
        blocker=record,
        since=blocker.since,
        next_try=None if record is None else record.due_at,
        waiting=waiting,
        at_least=at_least,
    )
