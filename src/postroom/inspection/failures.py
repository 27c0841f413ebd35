"""Failures: failed records in groups of one event type and one kind of error."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from heapq import nsmallest
from typing import Any, Final, NamedTuple

from sqlalchemy import text

from postroom.inspection.listing import RecordPage
from postroom.inspection.pauses import Changes
from postroom.inspection.reading import Reader, time_or_none
from postroom.inspection.records import (
    RecordName,
    known_time,
    name_columns,
    record_name,
    summary,
    summary_columns,
)
from postroom.redaction import mask

MAX_TEXT: Final = 300
"""How many characters of an error decide about its group."""
LOOKED_AT: Final = 10_000
"""How many failed records are read at a time to find those of a group."""
MAX_GROUPS: Final = 100
"""How many groups are returned."""
HOURS: Final = 24
"""How many hours a trend covers."""
VALUE: Final = re.compile(
    r"""(?<!\w)'[^']*'(?!\w) | "[^"]*" | `[^`]*` | \b[A-Za-z_]*+\d(?:[\w.:+-]*\w)?""", re.VERBOSE
)
"""Quoted text, and words with a digit."""
KIND: Final = re.compile(
    r"""(?P<id>[\da-f]{8}-?[\da-f]{4}-?[\da-f]{4}-?[\da-f]{4}-?[\da-f]{12})
    | (?P<time>\d{4}-\d\d-\d\d(?:T\S+)? | \d\d:\d\d:\d\d\S*) | (?P<hex>0x[\da-f]+ | [\da-f]{8,})""",
    re.VERBOSE | re.IGNORECASE,
)
NUMBER: Final = re.compile(r"(?<![A-Za-z_\d])\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Failed records of one event type and one kind of error."""

    number: int
    """1 is the largest group. The number changes when groups grow; `id` does not."""
    id: str
    event_type: str
    error: str
    """The text of the error, with `<number>` and the like in place of values that differ."""
    count: int
    first_failed_at: datetime | None
    last_failed_at: datetime | None
    trend: tuple[int, ...]
    """How many records failed in each of the last 24 hours, the latest last."""
    example: int
    """The position of the newest record of the group."""
    example_error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Groups of failed records, the largest first."""

    groups: tuple[FailureGroup, ...]
    """The largest 100 groups."""
    group_count: int
    total: int
    at_least: bool
    """Whether more failed records exist than the search limit."""


class _Group(NamedTuple):
    """A group that is being counted. The times are as the database gives them."""

    error: str
    count_: int
    first: Any
    last: Any
    example: int
    by_hour: Mapping[int, int]
    """How many failed so many hours ago; 24 for longer ago."""

    def joined(self, other: "_Group") -> "_Group":
        newer = max(self, other, key=lambda each: each.example)
        return _Group(
            newer.error,
            self.count_ + other.count_,
            min(self.first, other.first),
            max(self.last, other.last),
            newer.example,
            {
                hour: self.by_hour.get(hour, 0) + other.by_hour.get(hour, 0)
                for hour in {*self.by_hour, *other.by_hour}
            },
        )


class FailureGroups:
    """Reads failures."""

    def __init__(self, reader: Reader, changes: Changes) -> None:
        self._reader = reader
        self._changes = changes
        n, sql = reader.database, reader.database.sql
        error = f"substr(coalesce({sql.text('r.error_message')}, ''), 1, {MAX_TEXT})"
        failed = f"""SELECT r.position, {sql.text("r.event_type")} AS event_type,
                coalesce({known_time("r.updated_at")}, {sql.now}) AS updated_at,
                {error} AS error
            FROM {n.records} r WHERE r.status = 'failed'
            ORDER BY r.position DESC LIMIT {reader.search_limit}"""
        # Failed records with the same beginning of their error's text, by hours since then.
        age = sql.seconds_between("updated_at", sql.now)
        hour = (
            f"CASE WHEN {age} < {HOURS * 3600} THEN {sql.whole(f'{age} / 3600')} ELSE {HOURS} END"
        )
        self._texts = text(f"""SELECT event_type, error, count(*) AS number,
                min(updated_at) AS first_at, max(updated_at) AS last_at, max(position) AS example,
                {hour} AS hour
            FROM ({failed}) AS failed GROUP BY event_type, error, hour""")
        # Some failed records in order; and then those of them that are in the group.
        self._some = text(f"""SELECT {name_columns(sql, "r")}, {error} AS error
            FROM {n.records} r WHERE r.status = 'failed' AND r.position > :after
            ORDER BY r.position LIMIT {LOOKED_AT}""")
        self._records = text(f"""SELECT {summary_columns(sql)} FROM {n.records} w
            WHERE w.position {sql.among("positions")} ORDER BY w.position""")

    async def read(self) -> Failures:
        """Return every group."""
        async with self._reader.ask("the failures") as run:
            rows = await run(self._texts)
        groups = await asyncio.to_thread(_grouped, rows)  # many errors take long to compare
        total = sum(each.count_ for each in groups.values())
        largest = nsmallest(MAX_GROUPS, groups.items(), key=lambda each: (-each[1].count_, each[0]))
        return Failures(
            groups=tuple(_numbered(largest)),
            group_count=len(groups),
            total=total,
            at_least=total >= self._reader.search_limit,
        )

    async def records_of(self, group: str, *, cursor: int | None, limit: int) -> RecordPage:
        """Return records of a group by its id, the oldest first."""
        async with self._reader.ask("the records of a group of failures") as run:
            pauses = await self._changes.pauses(run)
            rows = await run(self._some, after=cursor or 0)
            found = [row.position for row in rows if _group_of(row) == group]
            positions = self._reader.database.sql.numbers(found[:limit])
            records = await run(self._records, positions=positions)
        page = tuple(summary(row, pauses) for row in records)
        if len(found) > limit:
            return RecordPage(records=page, cursor=found[limit - 1])
        more = rows[-1].position if len(rows) == LOOKED_AT else None
        return RecordPage(records=page, cursor=more, searched_to=more)

    async def names_of(self, group: str) -> list[RecordName]:
        """Return the names of all records of a group by its id, the oldest first."""
        names: list[RecordName] = []
        after: int | None = 0
        while after is not None:
            async with self._reader.ask("the records of a group of failures") as run:
                rows = await run(self._some, after=after)
            names += (record_name(row) for row in rows if _group_of(row) == group)
            after = rows[-1].position if len(rows) == LOOKED_AT else None
        return names


@lru_cache(maxsize=20_000)  # the same texts are asked about again and again
def normalised(error: str) -> str:
    """Replace what differs from record to record: ids, times, numbers, quoted text."""
    return VALUE.sub(_kind, error.strip().partition("\n")[0])


def _kind(found: re.Match[str]) -> str:
    value = found[0]
    if value[0] in "'\"`":
        return "<text>"
    kind = None if value.isdecimal() and len(value) < 32 else KIND.fullmatch(value)
    return NUMBER.sub("<number>", value) if kind is None else f"<{kind.lastgroup}>"


def group_id(event_type: str, error: str) -> str:
    """Return the id of a group: the same for the same event type and kind of error."""
    return sha256(f"{event_type}\0{error}".encode()).hexdigest()[:12]


def _group_of(row: Any) -> str:
    return group_id(row.event_type, normalised(row.error))


def _grouped(rows: Iterable[Any]) -> dict[tuple[str, str], _Group]:
    groups: dict[tuple[str, str], _Group] = {}
    for event_type, error, count, first, last, example, hour in rows:
        name = event_type, normalised(error)
        group = _Group(error, count, first, last, example, {max(0, hour): count})
        if name in groups:
            group = groups[name].joined(group)
        groups[name] = group
    return groups


def _numbered(groups: Iterable[tuple[tuple[str, str], _Group]]) -> Iterator[FailureGroup]:
    for number, ((event_type, error), group) in enumerate(groups, start=1):
        yield FailureGroup(
            number=number,
            id=group_id(event_type, error),
            event_type=event_type,
            error=mask(error),
            count=group.count_,
            first_failed_at=time_or_none(group.first),
            last_failed_at=time_or_none(group.last),
            trend=tuple(group.by_hour.get(hour, 0) for hour in reversed(range(HOURS))),
            example=group.example,
            example_error=mask(group.error),
        )
