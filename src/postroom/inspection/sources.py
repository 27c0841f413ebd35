"""What a list reads, in the order of an index, so that no plan depends on statistics."""

from enum import StrEnum
from typing import Final

from sqlalchemy import text

from postroom.database.database import Run
from postroom.inspection.reading import Reader
from postroom.store.blocked_keys import HELD

COLUMNS: Final = """r.position, r.id, r.event_type, r.aggregate_type, r.aggregate_id, r.status,
    r.ready, r.created_at, r.due_at, r.error_message"""
"""Those that a filter needs, and those that name a record."""


class Source(StrEnum):
    """Where a list reads."""

    FAILED = "failed records, by position"
    KEY = "records of a key that are not delivered, by position"
    UNDELIVERED = "records that are not delivered, in any order"
    ALL = "all records, by position"


class Sources:
    """Writes the SELECT of each source."""

    def __init__(self, reader: Reader) -> None:
        database, limit = reader.database, reader.search_limit
        self._records, self._pauses, self._limit = database.records, database.pauses, limit
        first = f"SELECT r.position FROM {database.records} r WHERE"
        self._next = {
            newest_first: text(f"{first} {_by_position(newest_first)} LIMIT 1")
            for newest_first in (False, True)
        }
        self._last_failed = {
            newest_first: text(f"""{first} {FAILED} AND {_by_position(newest_first)}
                LIMIT 1 OFFSET {limit - 1}""")
            for newest_first in (False, True)
        }

    def select(self, source: Source, *, newest_first: bool) -> str:
        """Write what returns records that come after position `:after`, so many at most.

        All records come up to position `:last`, too: see `window`. Undelivered ones come wherever
        they are, with a `number`: if one has that of the limit, there may be more.
        """
        limit, select = f"LIMIT {self._limit}", f"SELECT {COLUMNS} FROM {self._records} r WHERE"
        match source:
            case Source.FAILED:
                return f"{select} {FAILED} AND {_by_position(newest_first)} {limit}"
            case Source.KEY:
                ready, held = _ready_of_key(newest_first), _held_of_key(newest_first)
                return f"""SELECT * FROM ({select} {ready} {limit}) AS ready
                    UNION ALL SELECT * FROM ({select} {held} {limit}) AS held"""
            case Source.UNDELIVERED:
                numbered = "SELECT *, row_number() OVER () AS number FROM"
                ready, held = f"{select} {READY} {limit}", f"{select} {HELD_IN_ORDER} {limit}"
                return f"{numbered} ({ready}) AS ready UNION ALL {numbered} ({held}) AS held"
            case Source.ALL:
                up_to = f"r.position {'>=' if newest_first else '<='} :last"
                return f"{select} {up_to} AND {_by_position(newest_first)} {limit}"

    async def window(self, run: Run, source: Source, after: int, *, newest_first: bool) -> int:
        """Return the last position that a page of all records looks at.

        It begins at the first record after `after`: there may be none for a long way.
        """
        if source is not Source.ALL:
            return after
        rows = await run(self._next[newest_first], after=after)
        first = rows[0].position if rows else after
        return int(first - self._limit + 1 if newest_first else first + self._limit - 1)

    async def searched_to(
        self, run: Run, source: Source, after: int, last: int, *, newest_first: bool
    ) -> int | None:
        """Return the position that a page has searched up to; None if nothing comes after it."""
        if source is Source.ALL:
            return last if await run(self._next[newest_first], after=last) else None
        if source is not Source.FAILED:
            return None
        rows = await run(self._last_failed[newest_first], after=after)
        return rows[0].position if rows else None

    def is_paused(self, row: str) -> str:
        """Write the condition that an operator has paused a record."""
        key = f"""p.aggregate_id = {row}.aggregate_id
            AND p.aggregate_type = coalesce({row}.aggregate_type, '')"""
        return f"""EXISTS (SELECT 1 FROM {self._pauses} p WHERE CASE p.aggregate_id
            WHEN '' THEN p.event_type IN ('', {row}.event_type) ELSE {key} END)"""


FAILED: Final = "r.status = 'failed'"
READY: Final = "r.ready ORDER BY r.partition, r.position"
HELD_IN_ORDER: Final = f"{HELD} ORDER BY r.aggregate_id, r.position"


def _by_position(newest_first: bool) -> str:
    return f"{_beyond(newest_first)} ORDER BY r.position {_direction(newest_first)}"


def _held_of_key(newest_first: bool) -> str:
    direction = _direction(newest_first)
    return f"""{HELD} AND r.aggregate_id = :aggregate_id AND {_beyond(newest_first)}
        ORDER BY r.aggregate_id {direction}, r.position {direction}"""


def _ready_of_key(newest_first: bool) -> str:
    """Read the partition of the key as `within_partition` does, in either direction."""
    direction, sign = _direction(newest_first), "<" if newest_first else ">"
    return f"""r.ready AND (r.partition, r.position) {sign} (:partition, :after)
        AND r.partition {">" if newest_first else "<"}= :partition
        ORDER BY r.partition {direction}, r.position {direction}"""


def _beyond(newest_first: bool) -> str:
    return f"r.position {'<' if newest_first else '>'} :after"


def _direction(newest_first: bool) -> str:
    return "DESC" if newest_first else "ASC"
