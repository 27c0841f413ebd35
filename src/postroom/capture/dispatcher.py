"""`OutboxEventDispatcher`: a use case dispatches its events before the commit."""

from collections.abc import Iterable

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from postroom.capture.capture import capture, describe_all
from postroom.capture.outboxes import CapturingOutbox, settings_of
from postroom.events.event import Event


class OutboxEventDispatcher:
    """An `EventDispatcher` that saves events in the outbox, with the session of the use case.

    Dispatch before the commit: the events are committed with the data, or not at all. `outbox` may
    be left out if the process has one outbox.
    """

    def __init__(
        self, session: Session | AsyncSession, *, outbox: CapturingOutbox | None = None
    ) -> None:
        self._session = session
        self._settings = settings_of(outbox)

    async def dispatch(self, events: Iterable[Event]) -> None:
        """Add a record per event to the session, in order. Neither flushes nor commits.

        Raises CaptureError, and adds nothing, if an event cannot be saved.
        """
        self.dispatch_sync(events)

    def dispatch_sync(self, events: Iterable[Event]) -> None:
        """Add records as `dispatch` does, from sync code."""
        capture(self._session, describe_all(events, self._settings), self._settings)
