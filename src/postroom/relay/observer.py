"""`RelayObserver`: is called when something happens, for metrics and traces."""

import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import TYPE_CHECKING, Any, Literal

from postroom.errors import traceable
from postroom.publishers.base import Outage, Outcome
from postroom.record import ClaimedRecord
from postroom.store.base import Attempt, HeldRecord, Verdict

if TYPE_CHECKING:
    from postroom.relay.relay import OutboxRelay

logger = logging.getLogger("postroom.relay")

Answer = Outcome | Outage
BreakerState = Literal["closed", "open", "half_open"]


class RelayObserver:
    """Base class of observers of a relay. Each method does nothing; override those you need.

    The relay calls them in its event loop, so they have to return quickly. An error that an
    observer raises is logged once; deliveries go on.
    """

    def running(self, relay: "OutboxRelay") -> AbstractAsyncContextManager[Any] | None:
        """The relay starts. A context manager that is returned lasts until the relay has ended."""

    def leased(self, partitions: int) -> None:
        """The number of partitions that the relay leases, of 64, after each poll."""

    def claimed(self, records: int, seconds: float) -> None:
        """A claim has read a number of records, which may be 0, in some seconds."""

    def publishing(self, records: Sequence[ClaimedRecord]) -> AbstractContextManager[Any] | None:
        """A call of the publisher begins. A context manager that is returned lasts until its end.

        What it raises there is ignored; it sees the error of a call that is cancelled.
        """

    def published(
        self, records: Sequence[ClaimedRecord], answers: Sequence[Answer], seconds: float
    ) -> None:
        """A call of the publisher ended, with one answer for each record.

        Called before the context manager of `publishing` ends. Not called if it was cancelled.
        """

    def delivered(self, records: Sequence[ClaimedRecord]) -> None:
        """The database has these records as delivered."""

    def not_delivered(self, record: ClaimedRecord, verdict: Verdict, reason: str | None) -> None:
        """The database has a record as refused, postponed or failed."""

    def breaker_changed(self, name: str, state: BreakerState) -> None:
        """The circuit breaker of "the publisher" or "the database" has a new state.

        It is "open" in an outage. Called for each failed try during an outage, too.
        """

    def listener_changed(self, *, connected: bool) -> None:
        """The listener for commits of other processes has connected, or lost its connection."""

    def statement_run(self, name: str, seconds: float) -> None:
        """A statement of the relay, or the "commit" of a transaction with several, has ended."""


class Observers:
    """Calls the observers of a relay, and keeps their errors from it. False if there are none."""

    def __init__(self, observers: Iterable[RelayObserver] = ()) -> None:
        self.all = tuple(observers)
        self._logged: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self.all)

    def tell(self, call: Callable[[RelayObserver], object]) -> None:
        """Call a method of each observer."""
        for each in self.all:
            try:  # not `_guard`, which would take most of the time
                call(each)
            except Exception as error:
                self._log(each, error)

    @asynccontextmanager
    async def running(self, relay: "OutboxRelay") -> AsyncIterator[None]:
        """Tell that a relay runs, for as long as the block lasts."""
        entered: list[tuple[RelayObserver, AbstractAsyncContextManager[Any]]] = []
        try:
            for each in self.all:
                with self._guard(each):
                    if (context := each.running(relay)) is not None:
                        await context.__aenter__()
                        entered.append((each, context))
            yield
        finally:
            error = sys.exc_info()
            for each, context in reversed(entered):
                with self._guard(each):
                    await context.__aexit__(*error)

    @contextmanager
    def publishing(self, records: Sequence[ClaimedRecord]) -> Iterator[None]:
        """Tell that a call of the publisher begins, and that it has ended."""
        entered: list[tuple[RelayObserver, AbstractContextManager[Any]]] = []
        try:
            for each in self.all:
                with self._guard(each):
                    if (context := each.publishing(records)) is not None:
                        context.__enter__()
                        entered.append((each, context))
            yield
        finally:
            error = sys.exc_info()
            for each, context in reversed(entered):
                with self._guard(each):
                    context.__exit__(*error)

    def settled(self, delivered: Sequence[HeldRecord], attempts: Sequence[Attempt]) -> None:
        """Tell what was written about deliveries."""
        if self.all and delivered:
            records = [each.record for each in delivered]
            self.tell(lambda it: it.delivered(records))
        for each in attempts:
            attempt = each.record.record, each.verdict, each.reason
            self.tell(lambda it: it.not_delivered(*attempt))  # noqa: B023 - called at once

    def statement_run(self, name: str, seconds: float) -> None:
        """Tell that a statement has ended."""
        self.tell(lambda it: it.statement_run(name, seconds))

    @contextmanager
    def _guard(self, observer: RelayObserver) -> Iterator[None]:
        """Log the first error of an observer, and ignore all of them."""
        try:
            yield
        except Exception as error:
            self._log(observer, error)

    def _log(self, observer: RelayObserver, error: Exception) -> None:
        """Log an error, if it is the first one of an observer."""
        if id(observer) not in self._logged:
            self._logged.add(id(observer))
            name = type(observer).__name__
            text = "postroom: the observer %s failed; deliveries go on"
            logger.error(text, name, exc_info=traceable(error))
