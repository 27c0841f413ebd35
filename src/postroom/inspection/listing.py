"""Lists of records: a filter, a page, and a cursor to go on from.

A list reads one of the indexes that are made for what is not delivered, or else the records by
position. A page looks at 100,000 records at most; then its cursor says how far it has searched.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import TextClause, text

from postroom.database.database import Run
from postroom.inspection.pauses import Changes, Pause
from postroom.inspection.reading import Reader
from postroom.inspection.records import (
    RecordName,
    RecordState,
    RecordSummary,
    name_columns,
    record_name,
    summary,
    summary_columns,
)
from postroom.inspection.sources import Source, Sources
from postroom.record import PARTITIONS, Key, key_hash

PENDING: Final = frozenset(
    (RecordState.READY, RecordState.WAITING, RecordState.PARKED, RecordState.PAUSED)
)
"""The states of records that are neither delivered nor failed, for `RecordFilter(states=…)`."""
FIRST, LAST = 0, 2**62
MANY: Final = 20_000
"""How many names are read at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Selects records. All conditions that are given have to hold."""

    states: frozenset[RecordState] = frozenset()
    """In one of these states; all if empty."""
    event_type: str | None = None
    """Of this event type; `*` stands for any text: `order.*`."""
    key: Key | None = None
    """Of this key."""
    error: str | None = None
    """With this text in the error message, in upper or lower case."""
    older_than: timedelta | None = None
    """Created longer ago than this."""
    younger_than: timedelta | None = None
    """Created within this time."""
    since: datetime | None = None
    """Created at this time or later."""
    until: datetime | None = None
    """Created before this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    """A page of records, in order of position."""

    records: tuple[RecordSummary, ...]
    cursor: int | None
    """The `cursor` of the next page; None at the end."""
    searched_to: int | None = None
    """How far a page that is not full has searched, if the search limit ended it."""


class _Request(NamedTuple):
    """What is asked for: a page of what a filter allows, after a position."""

    columns: str
    where: RecordFilter
    pauses: tuple[Pause, ...]
    after: int
    limit: int
    newest_first: bool


class _Found(NamedTuple):
    """The rows of a page, and how far a page that is not full has searched."""

    rows: Sequence[Any]
    searched_to: int | None

    def cursor(self, limit: int) -> int | None:
        """Return the position to go on from; None at the end."""
        return self.rows[-1].position if len(self.rows) == limit else self.searched_to


class Listing:
    """Reads lists of records."""

    def __init__(self, reader: Reader, changes: Changes) -> None:
        self._reader = reader
        self._changes = changes
        self._sql, self._records = reader.database.sql, reader.database.records
        self._summary, self._name = summary_columns(self._sql), name_columns(self._sql)
        self._sources = Sources(reader)
        self._statements: dict[str, TextClause] = {}

    async def read(
        self, where: RecordFilter, *, cursor: int | None, limit: int, newest_first: bool
    ) -> RecordPage:
        """Return a page."""
        after = cursor if cursor is not None else (LAST if newest_first else FIRST)
        async with self._reader.ask("a list of records") as run:
            pauses = await self._changes.pauses(run)
            request = _Request(self._summary, where, pauses, after, limit, newest_first)
            found = await self._page(run, request)
        return RecordPage(
            records=tuple(summary(row, pauses) for row in found.rows),
            cursor=found.cursor(limit),
            searched_to=found.searched_to,
        )

    async def names(self, where: RecordFilter, *, limit: int | None) -> list[RecordName]:
        """Return the names of all records that a filter allows, or of the oldest ones."""
        names: list[RecordName] = []
        after: int | None = FIRST
        while after is not None:
            async with self._reader.ask("a list of records") as run:
                pauses = await self._changes.pauses(run)
                request = _Request(self._name, where, pauses, after, MANY, newest_first=False)
                found = await self._page(run, request)
            names += map(record_name, found.rows)
            after = found.cursor(MANY)
            if limit is not None and len(names) >= limit:
                return names[:limit]
        return names

    async def _page(self, run: Run, request: _Request) -> _Found:
        for source in _sources(request.where):
            found = await self._rows(run, source, request)
            if found is not None:
                return found
        raise AssertionError  # all records are never too many

    async def _rows(self, run: Run, source: Source, request: _Request) -> _Found | None:
        """Read the rows of a page. None if the source has more records than a page looks at."""
        after, newest_first = request.after, request.newest_first
        last = await self._sources.window(run, source, after, newest_first=newest_first)
        filters = dict(self._filters(request))
        values = {name: value for each in filters.values() for name, value in each.items()}
        values |= {"after": after, "limit": request.limit}
        if source is Source.ALL:
            values["last"] = last
        if source is Source.KEY and request.where.key is not None:
            values["partition"] = key_hash(*request.where.key) % PARTITIONS
        rows = await run(self._statement(source, list(filters), request), **values)
        if any(row.is_last for row in rows):
            return None
        if len(rows) == request.limit:
            return _Found(rows, None)
        end = await self._sources.searched_to(run, source, after, last, newest_first=newest_first)
        return _Found(rows, end)

    def _statement(self, source: Source, filters: list[str], request: _Request) -> TextClause:
        """Write the statement: names or positions first, so that few rows are read in full."""
        newest_first = request.newest_first
        conditions = " AND ".join(["true", *filters])
        is_last, order = "0", f"w.position {'DESC' if newest_first else 'ASC'}"
        if source is Source.UNDELIVERED:
            is_last = f"CASE WHEN w.number = {self._reader.search_limit} THEN 1 ELSE 0 END"
            beyond = f"w.position {'<' if newest_first else '>'} :after"
            conditions = f"({conditions} AND {beyond}) OR w.number = {self._reader.search_limit}"
            order = f"is_last DESC, {order}"
        found = f"""{is_last} AS is_last
            FROM ({self._sources.select(source, newest_first=newest_first)}) AS w
            WHERE {conditions} ORDER BY {order} LIMIT :limit"""
        if request.columns == self._name:
            written = f"SELECT {self._name}, {found}"
        else:
            same = "r.position = found.position LIMIT 1"
            each = self._sql.each(f"(SELECT w.position, {found}) AS found", self._records, same)
            written = f"SELECT {request.columns}, found.is_last FROM {each} ORDER BY {order}"
        return self._statements.setdefault(written, text(written))

    def _filters(self, request: _Request) -> Iterator[tuple[str, dict[str, Any]]]:
        """Write the conditions of a filter, each with the values of its parameters."""
        where, sql = request.where, self._sql
        if where.states:
            yield self._in_states(where.states, are_paused=bool(request.pauses)), {}
        if where.event_type is not None:
            pattern = sql.pattern(where.event_type)
            yield sql.matches("w.event_type", "event_type"), {"event_type": pattern}
        if where.key is not None:
            same_type = "coalesce(w.aggregate_type, '') = :aggregate_type"
            yield f"w.aggregate_id = :aggregate_id AND {same_type}", where.key._asdict()
        if where.error is not None:
            yield sql.contains("w.error_message", "error"), {"error": where.error}
        if where.older_than is not None:
            seconds = -where.older_than.total_seconds()
            yield f"w.created_at < {sql.after(':older_than')}", {"older_than": seconds}
        if where.younger_than is not None:
            seconds = -where.younger_than.total_seconds()
            yield f"w.created_at >= {sql.after(':younger_than')}", {"younger_than": seconds}
        if where.since is not None:
            yield f"w.created_at >= {sql.moment('since')}", {"since": sql.time(where.since)}
        if where.until is not None:
            yield f"w.created_at < {sql.moment('until')}", {"until": sql.time(where.until)}

    def _in_states(self, states: frozenset[RecordState], *, are_paused: bool) -> str:
        wanted = [f"w.status = '{each}'" for each in sorted(states - PENDING)]
        if states >= PENDING:
            wanted.append("w.status = 'pending'")
        else:
            paused = self._sources.is_paused("w") if are_paused else "false"
            wanted += [f"({CONDITIONS[each]} AND NOT {paused})" for each in states & NOT_PAUSED]
            if RecordState.PAUSED in states:
                wanted.append(f"(w.status = 'pending' AND {paused})")
        return f"({' OR '.join(wanted)})"


CONDITIONS: Final = {
    RecordState.READY: "w.status = 'pending' AND w.ready",
    RecordState.WAITING: "w.status = 'pending' AND NOT w.ready AND w.due_at IS NOT NULL",
    RecordState.PARKED: "w.status = 'pending' AND NOT w.ready AND w.due_at IS NULL",
}
NOT_PAUSED: Final = frozenset(CONDITIONS)


def _sources(where: RecordFilter) -> Iterator[Source]:
    """Choose what to read: as little as holds all that the filter allows."""
    if where.states == {RecordState.FAILED}:
        yield Source.FAILED
    elif where.states and RecordState.PUBLISHED not in where.states:
        yield Source.UNDELIVERED if where.key is None else Source.KEY
    yield Source.ALL
