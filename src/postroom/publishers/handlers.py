"""The publisher that runs handlers in this process: every handler of an event, each by itself."""

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.errors import (
    ConfigurationError,
    Outage,
    PayloadError,
    UndeliverableError,
    UnknownEventTypeError,
)
from postroom.events.registry import EventRegistry
from postroom.outbox import Outbox
from postroom.publishers.base import DELIVERED, Outcome, Refused
from postroom.publishers.handling import Call, Failure, all_of, attempt, handle
from postroom.publishers.once import Notes, SessionNote
from postroom.publishers.rebuild import calls_for
from postroom.publishers.scopes import (
    Container,
    Factory,
    FactoryContainer,
    Scope,
    application_container,
    build,
    one_line,
)
from postroom.publishers.time_limit import TimeLimit
from postroom.record import ClaimedRecord
from postroom.tables.inbox import InboxNotes

log = logging.getLogger(__name__)


class HandlersPublisher:
    """Delivers records to the handlers of their events, in this process.

    Handlers come from a `container` (Dishka's, or anything like it), which opens a scope for each,
    or from a `factory` that is called with their class; without either they are made without
    arguments. A handler that succeeded is not run again because another one failed.

    - `session`: what the container gives the handlers' Session or AsyncSession for, if that is of
      the outbox's database. The note that a handler is done is then part of the handler's own
      transaction, so that its effect happens once, also through a crash; of several transactions,
      it is part of the first that commits. One that raises after its commit is run again: commit
      last. On SQLite each transaction holds the write lock from its start
    - `timeout`: for each handler, without the time that its note takes; None waits for ever
    - `max_in_flight`: how many records are handled at once
    - `registry`: who handles what; that of the outbox unless told otherwise
    """

    max_batch: Final = 1

    def __init__(
        self,
        container: Container | None = None,
        *,
        factory: Factory | None = None,
        session: Any = None,
        timeout: timedelta | None = timedelta(minutes=5),
        max_in_flight: int = 10,
        registry: EventRegistry | None = None,
    ) -> None:
        _check(container, factory, session)
        self.max_in_flight = max_in_flight
        self._container = _source(container, factory)
        self._session = session
        self._timeout = timeout
        self._registry = registry
        self._notes: Notes | None = None

    def __str__(self) -> str:
        return "handlers in this process"

    async def open(self, outbox: Outbox, engine: AsyncEngine) -> None:
        """Get ready: there is nothing to connect to."""
        if self._registry is None:
            self._registry = outbox.settings.registry
        self._notes = Notes(InboxNotes(outbox.tables.inbox), engine)

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        """Run the handlers of each record; it is delivered when all of them have succeeded."""
        return [await self._deliver(record) for record in records]

    async def close(self) -> None:
        """Do nothing: the container is the application's."""

    async def _deliver(self, record: ClaimedRecord) -> Outcome:
        registry, notes = self._opened()
        try:
            calls = calls_for(record, registry)
        except (UnknownEventTypeError, PayloadError) as error:
            return Refused(str(error), permanent=True)
        except Exception as error:  # of the event's own code, which a later release may mend
            return Refused(f"{record.event_type} cannot be rebuilt: {one_line(error)}")
        # The only handler needs no note: that the record is delivered says as much. But it may
        # have had company when the record was refused.
        with_notes = len(calls) > 1 or self._session is not None or record.retry_count > 0
        done = await notes.done(record) if calls and with_notes else frozenset()
        remaining = [call for call in calls if call.name not in done]
        return verdict(await all_of(self._attempt(record, call, with_notes) for call in remaining))

    async def _attempt(self, record: ClaimedRecord, call: Call, with_note: bool) -> Failure | None:
        _, notes = self._opened()
        limit = TimeLimit(self._timeout)
        note = None if self._session is None else notes.with_session(record, call.name, limit)
        failure = await attempt(call, self._handle(record, call, with_note, note, limit))
        if failure is not None:
            if note is not None and note.kept:  # it failed after its commit: it is to run again
                await notes.take_back(record, call.name)
            _report(record, failure)
        return failure

    async def _handle(
        self,
        record: ClaimedRecord,
        call: Call,
        with_note: bool,
        note: SessionNote | None,
        limit: TimeLimit,
    ) -> None:
        """Run a handler within its time, and note that it is done, however long that takes."""
        _, notes = self._opened()
        if note is None:
            await limit.apply(handle(self._container, call))
        else:
            await limit.apply(self._handle_noted(call, note))
            with_note = not (note.kept or note.repeated)
        if with_note:
            await notes.add(record, call.name)

    async def _handle_noted(self, call: Call, note: SessionNote) -> None:
        """Run a handler whose session takes the note; that it is there already is no error."""

        async def prepare(scope: Scope) -> None:
            await note.follow(await build(scope, self._session))

        try:
            await handle(self._container, call, prepare)
        except Exception:
            if not note.repeated:
                raise
        finally:
            note.let_go()

    def _opened(self) -> tuple[EventRegistry, Notes]:
        if self._registry is None or self._notes is None:
            raise ConfigurationError("a HandlersPublisher has to be opened before it can publish.")
        return self._registry, self._notes


def verdict(failures: Sequence[Failure]) -> Outcome:
    """Give the outcome of a record, or raise what a handler said of all of them."""
    for failure in failures:
        if isinstance(failure.error, Outage):
            raise Outage(f"{failure.call.name}: {failure.error}") from failure.error
    if not failures:
        return DELIVERED
    # One that can still succeed deserves its retries; the others will say the same again.
    permanent = all(isinstance(failure.error, UndeliverableError) for failure in failures)
    return Refused("; ".join(map(str, failures)), permanent=permanent)


def _report(record: ClaimedRecord, failure: Failure) -> None:
    name, error = failure.call.name, failure.error
    if isinstance(error, Outage):
        log.warning("%s cannot handle anything now: %s", name, error)
        return
    # The relay says, as an error, what becomes of the record; here is where it comes from.
    message = "%s failed to handle %s, record %s"
    log.warning(message, name, record.event_type, record.id, exc_info=error)


def _source(container: Container | None, factory: Factory | None) -> Container:
    if container is not None:
        return application_container(container)
    return FactoryContainer(factory or _made_without_arguments)


def _made_without_arguments(handler: type[Any]) -> Any:
    return handler()


def _check(container: Container | None, factory: Factory | None, session: Any) -> None:
    if container is not None and factory is not None:
        raise ConfigurationError("handlers come from a container or from a factory, not from both.")
    if container is None and session is not None:
        raise ConfigurationError(
            "session= names what a container gives to handlers, and there is no container."
        )
