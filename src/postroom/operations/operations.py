"""`Operations`: retry, skip, discard, replay, pause, resume, drain, purge."""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.database.database import Run
from postroom.errors import error_text
from postroom.identity import uuid7
from postroom.operations.audit import Audit, Entry
from postroom.operations.changes import Changes, scope_row
from postroom.outbox import Outbox
from postroom.record import PARTITIONS, Key
from postroom.store.store import Store
from postroom.wakeup.notifier import CHANNEL, payload_of

logger = logging.getLogger(__name__)

T = TypeVar("T")

COUNTED: Final = 1_000_000
CHUNK: Final = 500
"""How many records are changed in a transaction: workers wait for its locks."""

Progress = Callable[[int], object]
"""Is called after each transaction with the number of records that are changed so far."""
Change = Callable[[Run, Collection[UUID]], Awaitable[Sequence[UUID]]]


class ChangeRecords(Protocol):
    """The signature of `Operations.retry` and its like."""

    async def __call__(
        self,
        ids: Collection[UUID],
        *,
        chosen_by: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> int: ...


class Operations:
    """Changes an outbox as an operator does, while its workers run. Each change is audited.

    A change of many records is made in transactions of 500 records. The entry of the audit is
    written in the same transactions, so it is right also if the change is interrupted.

    - `operator`, `host`: who is in the audit; the user and the machine of this process by default
    - `channel`: the channel on which workers are notified of a change ("outbox_channel"). With None
      they see it at their next poll
    - `shift`: returns a time to add to the database's clock, for tests
    """

    def __init__(
        self,
        outbox: Outbox,
        engine: AsyncEngine,
        *,
        operator: str | None = None,
        host: str | None = None,
        channel: str | None = CHANNEL,
        shift: Callable[[], timedelta] = timedelta,
    ) -> None:
        self._outbox = outbox
        self._store = Store(engine, outbox.tables, shift=shift)
        self._database = self._store.database
        self._changes = Changes(self._store)
        self._audit = Audit(self._database, operator, host)
        self._channel = channel if engine.dialect.name == "postgresql" else None
        old = self._database.sql.after(":age")
        self._count = text(f"""SELECT count(*) AS number FROM (
            SELECT 1 FROM {self._database.records} WHERE status = 'published'
            AND published_at < {old} ORDER BY position LIMIT :limit) AS delivered""")
        self._notify = text("SELECT pg_notify(:channel, :payload)")

    async def retry(
        self,
        ids: Collection[UUID],
        *,
        chosen_by: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Try failed or waiting records again now, with a retry count of 0.

        Returns how many records were changed: those that are neither failed nor waiting are left
        out. Order per key holds.

        - `chosen_by`: the filter that the records were chosen by, for the audit
        - `progress`: is called after each transaction with the number of records changed so far
        """
        entry = _entry("retry", ids, chosen_by)
        return await self._change(entry, ids, self._changes.retry, progress)

    async def skip(
        self,
        ids: Collection[UUID],
        *,
        chosen_by: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Leave failed records failed, and release the later records of their keys.

        Returns how many records were changed. Options as for `retry`.
        """
        entry = _entry("skip", ids, chosen_by)
        return await self._change(entry, ids, self._changes.skip, progress)

    async def discard(
        self,
        ids: Collection[UUID],
        *,
        chosen_by: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Delete records that are not delivered, and release the later records of their keys.

        A record that is in flight may still be delivered. Returns how many records were deleted.
        Options as for `retry`.
        """
        entry = _entry("discard", ids, chosen_by)
        return await self._change(entry, ids, self._changes.discard, progress)

    async def replay(
        self,
        ids: Collection[UUID],
        *,
        chosen_by: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Deliver published records again, in their order, with the header `postroom-replay`.

        Handlers run again: their receipts in the inbox of the outbox are deleted. Returns how many
        records were changed. Options as for `retry`.
        """
        replay = str(uuid7())
        entry = _entry("replay", ids, chosen_by).with_details(replay=replay)
        return await self._change(entry, ids, partial(self._changes.replay, replay), progress)

    async def count_delivered(self, *, older_than: timedelta) -> tuple[int, bool]:
        """Return how many records `purge` would delete, and whether there may be more.

        Counts up to 1,000,000.
        """
        age = -older_than.total_seconds()
        [row] = await self._database.fetch(self._count, age=age, limit=COUNTED)
        return row.number, row.number == COUNTED

    async def purge(self, *, older_than: timedelta, progress: Progress | None = None) -> int:
        """Delete records that were delivered longer ago than an age; return how many.

        Raises ValueError for a negative age.
        """
        if older_than < timedelta(0):
            raise ValueError(f"older_than is {older_than}. It is an age: 0 or more.")
        seconds = older_than.total_seconds()
        target = f"records delivered more than {seconds / 86400:g} d ago"
        entry = Entry(action="purge", target=target, details={"older_than_seconds": seconds})
        after: int | None = 0
        while after is not None:
            step = partial(self._purge_some, entry, older_than, after)
            entry, after = await self._database.transact(step)
            if progress is not None:
                progress(entry.records)
        return entry.records

    async def pause(
        self, *, event_type: str | None = None, key: Key | None = None, reason: str | None = None
    ) -> bool:
        """Pause deliveries of an event type or of a key; of the whole outbox if neither is given.

        Records in flight are finished. Returns False if that is paused already.
        """
        entry = Entry(action="pause", target=scope_text(event_type, key))
        if reason:
            entry = entry.with_details(reason=reason)
        who = {"operator": self._audit.operator, "host": self._audit.host, "reason": reason}
        scope = scope_row(event_type, key)

        async def pause(run: Run) -> bool:
            is_new = await self._changes.pause(run, scope, who)
            if is_new:
                await self._audit.write(run, entry)
            return is_new

        is_new = await self._database.transact(pause)
        if is_new:
            await self._wake()
        return is_new

    async def resume(self, *, event_type: str | None = None, key: Key | None = None) -> bool:
        """End the pause of an event type, of a key, or of the whole outbox if neither is given.

        Other pauses stay. Returns False if that is not paused.
        """
        entry = Entry(action="resume", target=scope_text(event_type, key))
        scope = scope_row(event_type, key)

        async def resume(run: Run) -> Entry | None:
            was_paused = await self._changes.resume(run, scope)
            return await self._audit.write(run, entry) if was_paused else None

        resumed = await self._database.transact(resume)
        if resumed is None:
            return False
        before = None
        while before != resumed.records:
            before = resumed.records
            resumed = await self._database.transact(partial(self._release_some, resumed))
        await self._wake()
        return True

    async def drain(self, worker: str) -> bool:
        """Make a worker finish its records in flight, and take no more until `undrain`.

        Other workers take over its partitions. The process goes on running. A worker that is
        started again is not drained. Returns False if there is no such worker, or it is drained
        already.
        """
        return await self._change_worker("drain", worker, self._changes.drain)

    async def undrain(self, worker: str) -> bool:
        """Make a drained worker take records again.

        Returns False if there is no such worker, or it is not drained.
        """
        return await self._change_worker("undrain", worker, self._changes.undrain)

    async def _change_worker(
        self, action: str, worker: str, change: Callable[[Run, str], Awaitable[bool]]
    ) -> bool:
        async def apply(run: Run) -> bool:
            is_changed = await change(run, worker)
            if is_changed:
                await self._audit.write(run, Entry(action=action, target=f"worker {worker}"))
            return is_changed

        is_changed = await self._database.transact(apply)
        if is_changed:
            await self._wake()
        return is_changed

    async def _change(
        self, entry: Entry, ids: Collection[UUID], change: Change, progress: Progress | None
    ) -> int:
        """Change records in order, 500 in a transaction; return how many were changed."""
        for chunk in _chunks(await self._changes.in_order(ids, CHUNK)):
            entry = await self._database.transact(partial(self._change_some, entry, chunk, change))
            if progress is not None:
                progress(entry.records)
        if entry.records:
            await self._wake()
        return entry.records

    async def _change_some(
        self, entry: Entry, ids: Sequence[UUID], change: Change, run: Run
    ) -> Entry:
        changed = await change(run, ids)
        if not changed:
            return entry
        return await self._audit.write(run, entry.changed(len(changed), changed))

    async def _purge_some(
        self, entry: Entry, older_than: timedelta, after: int, run: Run
    ) -> tuple[Entry, int | None]:
        cleaned = await self._store.cleaning.delete_delivered(run, older_than, after)
        if cleaned.deleted:
            entry = await self._audit.write(run, entry.changed(cleaned.deleted))
        return entry, cleaned.last

    async def _release_some(self, entry: Entry, run: Run) -> Entry:
        released = await self._store.cleaning.release_unheld(run, CHUNK)
        return await self._audit.write(run, entry.changed(released)) if released else entry

    async def _wake(self) -> None:
        """Have workers look for records now. If that fails, they do so at their next poll."""
        self._outbox.wake_relays()
        if self._channel is None:
            return
        payload = payload_of(self._outbox.tables.records.fullname, set(range(PARTITIONS)))
        try:
            await self._database.fetch(self._notify, channel=self._channel, payload=payload)
        except Exception as error:
            logger.warning(
                "postroom: cannot notify workers, who will see the change when they poll: %s",
                error_text(error),
            )


def scope_text(event_type: str | None, key: Key | None) -> str:
    """Say what is paused: the outbox, OrderPaid, or order/7."""
    return event_type or (key and "/".join(filter(None, key))) or "the outbox"


def _entry(action: str, ids: Collection[UUID], chosen_by: Mapping[str, Any] | None) -> Entry:
    """Begin the entry of a change, named by the filter or by the ids of the records."""
    if chosen_by:
        target = ", ".join(f"{name} {value}" for name, value in chosen_by.items())
    else:
        target = f"record {next(iter(ids))}" if len(ids) == 1 else f"{len(ids):,} records by id"
    return Entry(action=action, target=target, details=dict(chosen_by or {}))


def _chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))
