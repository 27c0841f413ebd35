"""Events without an outbox: their handlers run in the request, after its commit.

This is `EVENT_DISPATCH=in_process`. An event is lost when a handler fails, or when the process
ends between the commit and the handlers.
"""

from collections.abc import Iterable
from functools import partial

from dishka import AsyncContainer, Provider, Scope, provide
from postroom import Event, EventDispatcher, InProcessEventDispatcher

from accounts.shared.infrastructure.persistence.session import MainAsyncSession


class AfterCommitDispatcher:
    """An `EventDispatcher` that dispatches events when the session has committed."""

    def __init__(self, session: MainAsyncSession, dispatcher: EventDispatcher) -> None:
        self._session = session
        self._dispatcher = dispatcher

    async def dispatch(self, events: Iterable[Event]) -> None:
        """Keep the events. A rollback forgets them."""
        self._session.after_commit.append(partial(self._dispatcher.dispatch, list(events)))


class InProcessProvider(Provider):
    """Gives the dispatcher that runs handlers in the request."""

    @provide(scope=Scope.REQUEST)
    def dispatcher(self, session: MainAsyncSession, container: AsyncContainer) -> EventDispatcher:
        return AfterCommitDispatcher(session, InProcessEventDispatcher(container))
