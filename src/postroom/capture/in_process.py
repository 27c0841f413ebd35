"""`InProcessEventDispatcher`: runs handlers at once, without an outbox."""

import logging
from collections.abc import Iterable
from itertools import chain

from postroom.errors import traceable
from postroom.events.delayed import undelayed
from postroom.events.description import describe, event_list
from postroom.events.event import Event, UntypedEvent
from postroom.events.options import event_type_of
from postroom.events.registry import EventRegistry, default_registry
from postroom.publishers.handlers.handling import Call, Failure, all_of, attempt, handle
from postroom.publishers.handlers.scopes import Container, application_container

log = logging.getLogger(__name__)


class InProcessEventDispatcher:
    """An `EventDispatcher` without an outbox: it runs the handlers of each event at once.

    Dispatch after the commit. Each handler gets a new scope of the container. An error of a handler
    is logged and not raised, and the event is lost then. Use `OutboxEventDispatcher` for events
    that must not be lost.
    """

    def __init__(self, container: Container, registry: EventRegistry = default_registry) -> None:
        self._container = application_container(container)
        self._registry = registry

    async def dispatch(self, events: Iterable[Event]) -> None:
        """Run the handlers of each event concurrently, one event after the other."""
        # What is to wait needs an outbox to wait in.
        for event in map(undelayed, event_list(events)):
            await all_of(self._attempt(call) for call in self._calls(event))

    def _calls(self, event: Event) -> Iterable[Call]:
        by_class = self._registry.handler_entries(type(event))
        by_name = self._registry.handler_entries(_type_of(event))
        entries = {entry.name: entry for entry in chain(by_name, by_class)}
        return [Call(entry, event) for entry in entries.values()]

    async def _attempt(self, call: Call) -> Failure | None:
        failure = await attempt(call, self._handle(call))
        if failure is not None:
            _report(call.event, failure)
        return failure

    async def _handle(self, call: Call) -> None:
        by_class = call.entry in self._registry.handler_entries(type(call.event))
        event = call.event if by_class else _untyped(call.event)
        await handle(self._container, Call(call.entry, event))


def _untyped(event: Event) -> UntypedEvent:
    """Give an event as those see it who handle it by its name."""
    if isinstance(event, UntypedEvent):
        return event
    facts = describe(event)
    return UntypedEvent(
        event_type=facts.event_type,
        event_version=facts.event_version,
        aggregate_type=facts.aggregate_type,
        aggregate_id=facts.aggregate_id,
        payload=facts.payload,
        event_id=facts.event_id,
        occurred_at=facts.occurred_at,
    )


def _type_of(event: Event) -> str:
    return event.event_type if isinstance(event, UntypedEvent) else event_type_of(type(event))


def _report(event: Event, failure: Failure) -> None:
    message = "postroom: %s failed to handle %s, event %s"
    names = failure.call.name, _type_of(event), event.event_id
    log.error(message, *names, exc_info=traceable(failure.error))
