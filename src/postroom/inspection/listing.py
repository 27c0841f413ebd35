"""Lists of records: a filter, a page, and a cursor to go on from.

A list reads one of the indexes that are made for what is not delivered, or else the records by
position. A page looks at 100,000 records at most; then its cursor says how far it has searched.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import TextClause, text

from postroom.database.database import Run
from postroom.inspection.pauses import Changes, Pause
from postroom.inspection.reading import Reader
from postroom.inspection.records import RecordState, RecordSummary, summary, summary_columns
from postroom.inspection.sources import Source, Sources
from postroom.record import PARTITIONS, Key, key_hash

PENDING: Final = frozenset(
    (RecordState.READY, RecordState.WAITING, RecordState.PARKED, RecordState.PAUSED)
)
FIRST, LAST = 0, 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Which records to list. What is not given does not matter."""

    states: frozenset[RecordState] = frozenset()
    event_type: str | None = None
    """`*` stands for any text: `order.*`."""
    key: Key | None = None
    error: str | None = None
    """A part of the error's text, upper or lower case."""
    older_than: timedelta | None = None
    younger_than: timedelta | None = None
    since: datetime | None = None
    """Created at this time or later."""
    until: datetime | None = None
    """Created before this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    """Some records in order of their position."""

    records: tuple[RecordSummary, ...]
    cursor: int | None
    """What to give to get the next page; None at the end."""
    searched_to: int | None = None
    """The position up to which a page that is not full has searched, if there are more."""


class _Request(NamedTuple):
    """What is asked for: a page of what a filter allows, after a position."""

    where: RecordFilter
    pauses: tuple[Pause, ...]
    after: int
    limit: int
    newest_first: bool


class Listing:
    """Reads lists of records."""

    def __init__(self, reader: Reader, changes: Changes) -> None:
        self._reader = reader
        self._changes = changes
        self._sql, self._records = reader.database.sql, reader.database.records
        self._columns = summary_columns(self._sql)
        self._sources = Sources(reader)
        self._statements: dict[str, TextClause] = {}

    async def read(
        self, where: RecordFilter, *, cursor: int | None, limit: int, newest_first: bool
    ) -> RecordPage:
        """Return a page."""
        after = cursor if cursor is not None else (LAST if newest_first else FIRST)
        async with self._reader.ask("a list of records") as run:
            pauses = await self._changes.pauses(run)
            request = _Request(where, pauses, after, limit, newest_first)
            for source in _sources(where):
                page = await self._page(run, source, request)
                if page is not None:
                    return page
        raise AssertionError  # a page of all records is never None

    async def _page(self, run: Run, source: Source, request: _Request) -> RecordPage | None:
        """Read a page; None if the source has more records than a page looks at."""
        after, newest_first = request.after, request.newest_first
        last = await self._sources.window(run, source, after, newest_first=newest_first)
        filters = dict(self._filters(request))
        values = {name: value for each in filters.values() for name, value in each.items()}
        values |= {"after": after, "limit": request.limit}
        if source is Source.ALL:
            values["last"] = last
        if source is Source.KEY and request.where.key is not None:
            values["partition"] = key_hash(*request.where.key) % PARTITIONS
        rows = await run(self._statement(source, list(filters), newest_first), **values)
        if any(row.is_last for row in rows):
            return None
        records = tuple(summary(row, request.pauses) for row in rows)
        if len(records) == request.limit:
            return RecordPage(records=records, cursor=records[-1].position)
        end = await self._sources.searched_to(run, source, after, last, newest_first=newest_first)
        return RecordPage(records=records, cursor=end, searched_to=end)

    def _statement(self, source: Source, filters: list[str], newest_first: bool) -> TextClause:
        """Write the statement: the positions first, so that few rows are read in full."""
        conditions = " AND ".join(["true", *filters])
        is_last, order = "0", f"w.position {'DESC' if newest_first else 'ASC'}"
        if source is Source.UNDELIVERED:
            is_last = f"CASE WHEN w.number = {self._reader.search_limit} THEN 1 ELSE 0 END"
            beyond = f"w.position {'<' if newest_first else '>'} :after"
            conditions = f"({conditions} AND {beyond}) OR w.number = {self._reader.search_limit}"
            order = f"is_last DESC, {order}"
        found = f"""(SELECT w.position, {is_last} AS is_last
            FROM ({self._sources.select(source, newest_first=newest_first)}) AS w
            WHERE {conditions} ORDER BY {order} LIMIT :limit) AS found"""
        each = self._sql.each(found, self._records, "r.position = found.position LIMIT 1")
        written = f"SELECT {self._columns}, found.is_last FROM {each} ORDER BY {order}"
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
