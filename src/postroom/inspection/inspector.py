"""`Inspector`: all questions about an outbox."""

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
    """Reads the state of an outbox: records, keys, failures, workers. It changes nothing.

    Each call is one short transaction that only reads: no writer and no worker waits for it.
    Payloads and headers are returned without redacted fields. Raises InspectionTimeoutError.

    - `outbox`, `engine`: the outbox, and an AsyncEngine of its database. The caller disposes of it
    - `time_limit`: a statement that takes longer is ended (3 s)
    - `search_limit`: how many records of a kind a call looks at (100,000). Counts of more are
      estimates, and the result says so
    - `shift`: returns a time to add to the database's clock, for tests
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
        """Return counts, ages, rates, workers and pauses, and whether the outbox is healthy."""
        return await self._overview.read()

    async def latency(self) -> Latency:
        """Return the time from commit to delivery of records delivered in the last minute."""
        return await self._latency.read()

    async def records(
        self,
        where: RecordFilter = EVERYTHING,
        *,
        cursor: int | None = None,
        limit: int = 50,
        newest_first: bool = True,
    ) -> RecordPage:
        """Return a page of records, by position.

        For the next page give the `cursor` of this one. To find an old published record quickly,
        filter by `states` or begin at a position: only records that are not delivered have indexes
        by state.
        """
        return await self._listing.read(
            where, cursor=cursor, limit=limit, newest_first=newest_first
        )

    async def names(self, where: RecordFilter, *, limit: int | None = None) -> list[RecordName]:
        """Return position, id, event type and key of all records that match, the oldest first."""
        return await self._listing.names(where, limit=limit)

    async def summaries(self, names: Sequence[str]) -> list[RecordSummary]:
        """Return records by ids, beginnings of ids, or positions, in the given order.

        Raises RecordNotFoundError.
        """
        return await self._details.summaries(names)

    async def record(self, name: str) -> RecordDetail:
        """Return one record by its id, the beginning of its id, or its position, with its payload.

        Raises RecordNotFoundError if there is none, or several ids begin like this.
        """
        return await self._details.read(name)

    async def key(self, key: Key | str) -> KeyReport:
        """Return the undelivered records of a key, such as `order/7`, and what they wait for.

        The `str` of the result is a sentence.
        """
        return await self._keys.report(parse_key(key) if isinstance(key, str) else key)

    async def failures(self) -> Failures:
        """Return failed records in groups of one event type and one kind of error.

        Numbers, ids, times and quoted texts in an error do not make a new group.
        """
        return await self._failures.read()

    async def records_of(
        self, group: str, *, cursor: int | None = None, limit: int = 1000
    ) -> RecordPage:
        """Return a page of the failed records of a group, by the group's id, the oldest first."""
        return await self._failures.records_of(group, cursor=cursor, limit=limit)

    async def names_of(self, group: str) -> list[RecordName]:
        """Return position, id, event type and key of all failed records of a group."""
        return await self._failures.names_of(group)

    async def blocked_keys(self, *, cursor: int | None = None, limit: int = 50) -> BlockedKeysPage:
        """Return a page of blocked keys, those with the most waiting records first."""
        return await self._keys.blocked(cursor=cursor, limit=limit)

    async def waiting_behind(self, positions: Collection[int]) -> int:
        """Return how many records wait behind the records at some positions."""
        return await self._keys.waiting_behind(positions)

    async def workers(self) -> tuple[Worker, ...]:
        """Return the workers that are alive, and those that ended without being stopped."""
        async with self._reader.ask("the workers") as run:
            return await self._workers.read(run)

    async def event_types(self) -> tuple[EventType, ...]:
        """Return the event types of the registry and of the table, with JSON Schemas."""
        return await self._event_types.read()

    async def pauses(self) -> tuple[Pause, ...]:
        """Return the pauses in force."""
        async with self._reader.ask("the pauses") as run:
            return await self._changes.pauses(run)

    async def audit(self, *, limit: int = 50, before: int | None = None) -> tuple[Change, ...]:
        """Return changes by operators, the newest first.

        For the next page give the id of the last change as `before`.
        """
        return await self._changes.audit(limit, before)

    async def changes_of(self, record: UUID) -> tuple[Change, ...]:
        """Return changes by operators that name a record, among the newest 500 changes.

        A change of many records names the first 100 of them.
        """
        return await self._changes.of_record(record)

    async def activity(self) -> Activity:
        """Return an `Activity`, whose `poll` returns deliveries and refusals from now on."""
        activity = Activity(self._reader)
        await activity.start()
        return activity
