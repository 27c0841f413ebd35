"""The one read side of an outbox: commands, console and metrics ask here."""

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.inspection.activity import Activity
from postroom.inspection.details import Details, RecordDetail
from postroom.inspection.event_types import EventType, EventTypes
from postroom.inspection.failures import FailureGroups, Failures
from postroom.inspection.keys import BlockedKeysPage, KeyReport, Keys
from postroom.inspection.latency import Latencies, Latency
from postroom.inspection.listing import Listing, RecordFilter, RecordPage
from postroom.inspection.overview import Overview, Overviews
from postroom.inspection.pauses import Change, Changes, Pause
from postroom.inspection.reading import SEARCH_LIMIT, TIME_LIMIT, Reader
from postroom.inspection.records import RecordName, RecordSummary
from postroom.inspection.wording import parse_key
from postroom.inspection.workers import Worker, Workers
from postroom.outbox import Outbox
from postroom.record import Key

EVERYTHING = RecordFilter()


class Inspector:
    """Answers questions about an outbox, on PostgreSQL and SQLite.

    Each question is one short transaction that only reads: no writer and no worker waits for it.
    A statement that takes longer than `time_limit` ends with InspectionTimeoutError. A question
    looks at `search_limit` records of a kind; counts of more are estimates, and say so. The engine
    stays the caller's, who disposes of it. `shift` is added to the database's clock, by tests.
    """

    def __init__(
        self,
        outbox: Outbox,
        engine: AsyncEngine,
        *,
        time_limit: timedelta = TIME_LIMIT,
        search_limit: int = SEARCH_LIMIT,
        shift: Callable[[], timedelta] = timedelta,
    ) -> None:
        self.outbox, self.engine = outbox, engine
        self._reader = Reader(
            outbox, engine, time_limit=time_limit, search_limit=search_limit, shift=shift
        )
        self._changes = Changes(self._reader)
        self._workers = Workers(self._reader)
        self._keys = Keys(self._reader, self._changes, self._workers)
        self._details = Details(self._reader, self._changes, self._workers, self._keys)
        self._listing = Listing(self._reader, self._changes)
        self._failures = FailureGroups(self._reader, self._changes)
        self._event_types = EventTypes(self._reader)
        self._latency = Latencies(self._reader)
        self._overview = Overviews(self._reader, self._changes, self._workers)

    async def overview(self) -> Overview:
        """Return counts, ages and rates, and whether the outbox is healthy."""
        return await self._overview.read()

    async def latency(self) -> Latency:
        """Return how long records took from their commit to their delivery in the last minute."""
        return await self._latency.read()

    async def records(
        self,
        where: RecordFilter = EVERYTHING,
        *,
        cursor: int | None = None,
        limit: int = 50,
        newest_first: bool = True,
    ) -> RecordPage:
        """Return a page of records, by position."""
        return await self._listing.read(
            where, cursor=cursor, limit=limit, newest_first=newest_first
        )

    async def names(self, where: RecordFilter, *, limit: int | None = None) -> list[RecordName]:
        """Return the names of all records that a filter allows, or of the oldest ones."""
        return await self._listing.names(where, limit=limit)

    async def summaries(self, names: Sequence[str]) -> list[RecordSummary]:
        """Return records by their ids, beginnings of their ids, or positions, in this order.

        Raises RecordNotFoundError.
        """
        return await self._details.summaries(names)

    async def record(self, name: str) -> RecordDetail:
        """Return one record by its id, the beginning of its id, or its position.

        Raises RecordNotFoundError.
        """
        return await self._details.read(name)

    async def key(self, key: Key | str) -> KeyReport:
        """Return what is not delivered of a key, such as `order/7`, and what it waits for."""
        return await self._keys.report(parse_key(key) if isinstance(key, str) else key)

    async def failures(self) -> Failures:
        """Return failed records in groups of one event type and one kind of error."""
        return await self._failures.read()

    async def records_of(
        self, group: str, *, cursor: int | None = None, limit: int = 1000
    ) -> RecordPage:
        """Return failed records of a group, by the group's id; the oldest first."""
        return await self._failures.records_of(group, cursor=cursor, limit=limit)

    async def names_of(self, group: str) -> list[RecordName]:
        """Return the names of all failed records of a group, by the group's id."""
        return await self._failures.names_of(group)

    async def blocked_keys(self, *, cursor: int | None = None, limit: int = 50) -> BlockedKeysPage:
        """Return blocked keys, those with the most waiting records first."""
        return await self._keys.blocked(cursor=cursor, limit=limit)

    async def waiting_behind(self, positions: Collection[int]) -> int:
        """Return how many records wait behind those at some positions."""
        return await self._keys.waiting_behind(positions)

    async def workers(self) -> tuple[Worker, ...]:
        """Return every worker that is there, or was not stopped in an orderly way."""
        async with self._reader.ask("the workers") as run:
            return await self._workers.read(run)

    async def event_types(self) -> tuple[EventType, ...]:
        """Return the event types that the program knows or the table has, with JSON Schemas."""
        return await self._event_types.read()

    async def pauses(self) -> tuple[Pause, ...]:
        """Return what operators have paused."""
        async with self._reader.ask("the pauses") as run:
            return await self._changes.pauses(run)

    async def audit(self, *, limit: int = 50, before: int | None = None) -> tuple[Change, ...]:
        """Return what operators have changed, the newest first; before the change with this id."""
        return await self._changes.audit(limit, before)

    async def changes_of(self, record: UUID) -> tuple[Change, ...]:
        """Return what operators have changed about a record, of the newest 500 changes.

        An entry of the audit lists the first 100 records that it changed.
        """
        return await self._changes.of_record(record)

    async def activity(self) -> Activity:
        """Return what tells of deliveries and refusals from now on, each time it is polled."""
        activity = Activity(self._reader)
        await activity.start()
        return activity
