"""Counts of what is not delivered, by event type and state."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from sqlalchemy import text

from postroom.database.database import Run, as_rows
from postroom.inspection.pauses import Pause, covering
from postroom.inspection.reading import Reader, time_or_none
from postroom.inspection.records import RecordState, known_time
from postroom.inspection.sources import HELD_IN_ORDER, READY, Source, Sources
from postroom.record import PARTITIONS, Key, key_hash
from postroom.store.rows import within_partition

COUNTED: Final = 1_000_000
"""How many records are counted at most: ready ones, and those that are held back."""
STATES: Final = (RecordState.READY, RecordState.WAITING, RecordState.PARKED, RecordState.FAILED)
STATE: Final = """CASE WHEN r.ready THEN 0 WHEN r.status = 'failed' THEN 3
    WHEN r.due_at IS NULL THEN 2 ELSE 1 END AS state"""
"""A record's state, as the index of one in STATES: quicker to group by than its columns."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """How many records of each type and state there are, and when the oldest was created."""

    counts: defaultdict[tuple[str, RecordState], int] = field(
        default_factory=lambda: defaultdict(int)
    )
    oldest: dict[tuple[str, RecordState], datetime] = field(default_factory=dict)
    oldest_ready: datetime | None = None
    is_exact: bool = True

    def add(
        self, event_type: str, state: RecordState, number: int, oldest: datetime | None
    ) -> None:
        """Add some records."""
        self.counts[event_type, state] += number
        known = self.oldest.get((event_type, state))
        if oldest is not None and (known is None or oldest < known):
            self.oldest[event_type, state] = oldest

    def pause(self, event_type: str, state: RecordState, number: int) -> None:
        """Count some records that were counted already as paused."""
        moved = min(number, self.counts[event_type, state])
        self.counts[event_type, state] -= moved
        self.add(event_type, RecordState.PAUSED, moved, self.oldest.get((event_type, state)))

    def number(self, states: Collection[RecordState], event_type: str | None = None) -> int:
        """Return how many records there are in these states."""
        return sum(
            number
            for (name, state), number in self.counts.items()
            if state in states and event_type in (None, name)
        )

    def since(
        self, states: Collection[RecordState], event_type: str | None = None
    ) -> datetime | None:
        """Return when the oldest record in these states was created."""
        times = (
            time
            for (name, state), time in self.oldest.items()
            if state in states and event_type in (None, name) and self.counts[name, state]
        )
        return min(times, default=None)


class Counts:
    """Counts what is not delivered."""

    def __init__(self, reader: Reader) -> None:
        n, sql = reader.database, reader.database.sql
        limit = self._limit = reader.search_limit
        # By type and state; 100,000 ready records at most, and as many that are held back.
        created_at = f"{known_time('r.created_at')} AS created_at"
        columns = f"{sql.text('r.event_type')} AS event_type, {STATE}, {created_at}"
        some = f"SELECT {columns} FROM {n.records} r WHERE"
        groups = """SELECT event_type, state, count(*) AS number, min(created_at) AS oldest
            FROM ({}) AS r GROUP BY event_type, state"""
        self._groups = text(f"""{groups.format(f"{some} {READY} LIMIT {limit}")}
            UNION ALL {groups.format(f"{some} {HELD_IN_ORDER} LIMIT {limit}")}""")

        # All of them, if those were not all; and the oldest ready one.
        number = f"SELECT count(*) FROM (SELECT 1 FROM {n.records} r WHERE"
        partitions = sql.rows("partitions", {"partition": "smallint"})
        first = f"r.ready AND {within_partition('partitions', '0')} LIMIT 1"
        self._totals = text(f"""SELECT
            ({number} {READY} LIMIT {COUNTED}) AS ready) AS ready,
            ({number} {HELD_IN_ORDER} LIMIT {COUNTED}) AS held) AS held,
            (SELECT min({known_time("w.created_at")})
                FROM {sql.each(partitions, n.records, first)}) AS oldest""")

        # The pending records of a key.
        key = Sources(reader).select(Source.KEY, newest_first=False)
        self._of_key = text(f"""SELECT event_type, state, count(*) AS number
            FROM (SELECT r.event_type, {STATE} FROM ({key}) AS r
                WHERE r.status = 'pending' AND r.aggregate_id = :aggregate_id
                AND coalesce(r.aggregate_type, '') = :aggregate_type) AS r
            GROUP BY event_type, state""")

    async def read(self, run: Run, pauses: Collection[Pause]) -> Tally:
        """Count by type and state."""
        rows = await run(self._groups)
        found = {
            ready: sum(row.number for row in rows if (row.state == 0) == ready) for ready in (0, 1)
        }
        totals = dict(found)
        tally = Tally(is_exact=self._limit not in found.values())
        if not tally.is_exact:
            partitions = as_rows({"partition": each} for each in range(PARTITIONS))
            [row] = await run(self._totals, partitions=partitions)
            totals = {False: max(row.held, found[False]), True: max(row.ready, found[True])}
            tally.oldest_ready = time_or_none(row.oldest)
        for row in rows:
            ready, state = row.state == 0, STATES[row.state]
            number = round(row.number * totals[ready] / found[ready])
            is_paused = covering(pauses, row.event_type, None) and state is not RecordState.FAILED
            state = RecordState.PAUSED if is_paused else state
            tally.add(row.event_type, state, number, time_or_none(row.oldest))
        for pause in pauses:
            if pause.key is not None:
                await self._pause_key(run, tally, pause.key)
        tally.oldest_ready = tally.oldest_ready or tally.since((RecordState.READY,))
        return tally

    async def _pause_key(self, run: Run, tally: Tally, key: Key) -> None:
        """Count the records of a paused key as paused."""
        partition = key_hash(*key) % PARTITIONS
        for row in await run(self._of_key, **key._asdict(), partition=partition, after=0):
            tally.pause(row.event_type, STATES[row.state], row.number)
