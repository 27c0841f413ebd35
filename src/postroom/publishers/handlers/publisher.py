"""`HandlersPublisher`: runs every handler of an event."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.errors import (
    ConfigurationError,
    OutageError,
    PayloadError,
    UndeliverableError,
    error_text,
)
from postroom.events.registry import EventRegistry
from postroom.inbox.effectively_once import HandlerReceipts, SessionReceipt
from postroom.inbox.receipts import Receipts
from postroom.outbox import Outbox
from postroom.publishers.base import DELIVERED, Outcome, Refused, WaitingRoute
from postroom.publishers.handlers.handling import Call, Failure, all_of, attempt, handle, within
from postroom.publishers.handlers.rebuild import calls_for
from postroom.publishers.handlers.scopes import (
    Container,
    Factory,
    FactoryContainer,
    Scope,
    application_container,
    build,
    one_line,
)
from postroom.publishers.handlers.time_limit import TimeLimit
from postroom.publishers.waiting import Unknown, WaitingRoutes, check_choice
from postroom.record import ClaimedRecord, secrets_of

HandlerWrapper = Callable[[ClaimedRecord, str], AbstractContextManager[Any]]
"""Takes a record and the name of a handler; returns a context manager to run the handler in."""
Kind = tuple[str, int]
"""An event type and a version of it."""


class HandlersPublisher:
    """A publisher that runs the handlers of each event in this process.

    Each handler runs in its own scope. A handler that succeeded is not run again because another
    handler of the event failed. Raises ConfigurationError for options that contradict each other.

    - `container`: makes the handlers: a Dishka container, or any `Container`
    - `factory`: makes a handler of its class, in place of a container. It returns the handler, an
      awaitable of it, or an async context manager. Without either, handlers are made without
      arguments
    - `session`: the type for which the container gives a handler its Session or AsyncSession, if
      that is of the outbox's database. The handler's receipt is then written in the handler's own
      transaction, so its effect happens once, also if the process is killed. With several
      transactions, the receipt is part of the first that commits. A handler that raises after its
      commit is run again. On SQLite each such transaction takes the write lock at its start
    - `timeout`: the time limit of each handler (5 minutes); None sets no limit
    - `max_in_flight`: how many records are handled at once (10)
    - `registry`: the registry of handlers; that of the relay's outbox by default
    - `unknown`: what happens to a record whose event type or version this process does not know:
      "wait" (it waits for a worker that does) or "refuse" (it counts as an attempt)
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
        unknown: Unknown = "wait",
    ) -> None:
        _check(container, factory, session)
        check_choice("unknown", unknown, Unknown)
        self.max_in_flight = max_in_flight
        self._container = _source(container, factory)
        self._session = session
        self._timeout = timeout
        self.registry = registry
        self._receipts: HandlerReceipts | None = None
        self._wrapper: HandlerWrapper | None = None
        self._redact: Sequence[str] = ()
        self._unknown = unknown
        self._waiting: WaitingRoutes[Kind] = WaitingRoutes(lambda it: f"handlers of {_name(it)}")

    def __str__(self) -> str:
        return "handlers in this process"

    def use(self, outbox: Outbox, engine: AsyncEngine) -> None:
        """Take the registry and the inbox of the relay's outbox. The relay calls this."""
        if self.registry is None:
            self.registry = outbox.settings.registry
        self._receipts = HandlerReceipts(Receipts(outbox.tables.inbox), engine)
        self._redact = outbox.redact

    def wrap_handlers(self, wrapper: HandlerWrapper) -> None:
        """Run each handler in a context manager that `wrapper` returns, such as a span.

        The context manager gets the error of the handler, a time-out too. A new wrapper replaces
        the one before.
        """
        self._wrapper = wrapper

    def waiting_routes(self) -> Sequence[WaitingRoute]:
        """Return the event types and versions that this process does not know, as routes."""
        return self._waiting.report()

    async def open(self) -> None:
        """Check that there is an outbox. Raises ConfigurationError. The relay calls this."""
        self._parts()

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        """Run the handlers of each record; it is delivered when all of them have succeeded."""
        return [await self._deliver(record) for record in records]

    async def close(self) -> None:
        """Do nothing: the application closes its container."""

    async def _deliver(self, record: ClaimedRecord) -> Outcome:
        registry, receipts = self._parts()
        kind = record.event_type, record.event_version
        try:
            if not registry.knows(*kind):
                return self._not_known(record, kind)
            if self._waiting:
                self._waiting.delivered(kind, record.id)
            calls = calls_for(record, registry)
        except PayloadError as error:
            return Refused(str(error), permanent=True)
        except Exception as error:  # of the event's own code, which a later release may mend
            problem = f"{record.event_type} cannot be rebuilt: {one_line(error)}"
            return Refused(problem, error=error)
        # The only handler needs no receipt: that the record is delivered says as much. But it may
        # have had company when the record was refused.
        with_receipt = len(calls) > 1 or self._session is not None or record.retry_count > 0
        done = await receipts.done(record) if calls and with_receipt else frozenset()
        remaining = [call for call in calls if call.name not in done]
        failures = await all_of(self._attempt(record, call, with_receipt) for call in remaining)
        return verdict(failures, secrets_of(record, self._redact)) if failures else DELIVERED

    def _not_known(self, record: ClaimedRecord, kind: Kind) -> Outcome:
        """Have a record wait for a worker that knows it: in a deployment, one of newer code."""
        remedy = "deploy the code that wrote it, or import the module of its handler or upcaster"
        reason = f"no worker knows {_name(kind)}: {remedy}"
        if self._unknown == "refuse":
            return Refused(reason)
        return self._waiting.postpone(kind, record.id, reason)

    async def _attempt(
        self, record: ClaimedRecord, call: Call, with_receipt: bool
    ) -> Failure | None:
        _, receipts = self._parts()
        limit = TimeLimit(self._timeout)
        receipt = (
            None
            if self._session is None
            else receipts.with_session(record, call.name, limit.paused)
        )
        work = self._handle(record, call, with_receipt, receipt, limit)
        if self._wrapper is not None:
            work = within(self._wrapper(record, call.name), work)
        failure = await attempt(call, work)
        if failure is not None and receipt is not None and receipt.kept:
            await receipts.take_back(record, call.name)  # it failed after its commit: run it again
        return failure

    async def _handle(
        self,
        record: ClaimedRecord,
        call: Call,
        with_receipt: bool,
        receipt: SessionReceipt | None,
        limit: TimeLimit,
    ) -> None:
        """Run a handler within its time, and add the receipt, however long that takes."""
        _, receipts = self._parts()
        if receipt is None:
            await limit.apply(handle(self._container, call))
        else:
            await limit.apply(self._handle_with_receipt(call, receipt))
            with_receipt = not (receipt.kept or receipt.repeated)
        if with_receipt:
            await receipts.add(record, call.name)

    async def _handle_with_receipt(self, call: Call, receipt: SessionReceipt) -> None:
        """Run a handler whose session takes the receipt; that it is there already is no error."""

        async def prepare(scope: Scope) -> None:
            await receipt.follow(await build(scope, self._session))

        try:
            await handle(self._container, call, prepare)
        except Exception:
            if not receipt.repeated:
                raise
        finally:
            receipt.let_go()

    def _parts(self) -> tuple[EventRegistry, HandlerReceipts]:
        if self.registry is None or self._receipts is None:
            raise ConfigurationError(
                "a HandlersPublisher needs the outbox of its relay. Give it to an OutboxRelay, or"
                " call use(outbox, engine) first."
            )
        return self.registry, self._receipts


def verdict(failures: Sequence[Failure], secrets: Collection[str] = ()) -> Refused:
    """Give the outcome of a record that handlers failed to handle; raise the outage of one."""
    for failure in failures:
        if isinstance(failure.error, OutageError):
            text = error_text(failure.error, secrets)
            raise OutageError(f"{failure.call.name}: {text}") from failure.error
    # One that can still succeed deserves its retries; the others will say the same again.
    permanent = all(isinstance(failure.error, UndeliverableError) for failure in failures)
    reason = "; ".join(failure.describe(secrets) for failure in failures)
    return Refused(reason, permanent=permanent, error=_error_of(failures))


def _name(kind: Kind) -> str:
    event_type, version = kind
    return f"{event_type} v{version}"


def _error_of(failures: Sequence[Failure]) -> BaseException:
    errors = [failure.error for failure in failures]
    if len(errors) == 1:
        return errors[0]
    return BaseExceptionGroup("several handlers failed", errors)


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
