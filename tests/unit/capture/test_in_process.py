"""Events straight to their handlers, each in a scope beside that of the request."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from dishka import AsyncContainer, Provider, Scope, make_async_container

from postroom import (
    CaptureError,
    DomainEvent,
    Event,
    EventDispatcher,
    EventRegistry,
    UntypedEvent,
)
from postroom.capture.in_process import InProcessEventDispatcher
from postroom.events.delayed import Delayed
from tests.support.waiting import PATIENCE


@dataclass(frozen=True, kw_only=True)
class UserCreated(DomainEvent, aggregate="user", key="name"):
    name: str


class Unit:
    """What a scope has one of, as it has one session."""


@dataclass
class Log:
    """What all handlers write to."""

    seen: list[tuple[str, Any]]
    units: list[Unit]
    closed: int = 0


class Handler:
    def __init__(self, log: Log, unit: Unit) -> None:
        self.log = log
        log.units.append(unit)

    async def handle(self, event: Any) -> None:
        self.log.seen.append((type(self).__name__, event))


class Welcome(Handler):
    pass


class Audit(Handler):
    pass


class Meeting(Handler):
    """Ends only when another one is there at the same time."""

    barrier = asyncio.Barrier(2)

    async def handle(self, event: Any) -> None:
        async with asyncio.timeout(PATIENCE), self.barrier:
            await super().handle(event)


class OtherMeeting(Meeting):
    pass


class Broken(Handler):
    async def handle(self, event: Any) -> None:
        raise RuntimeError("no mail")


class Unknown(Handler):
    """Is not in the container."""


@pytest.fixture
def log() -> Log:
    return Log([], [])


@pytest.fixture
def registry() -> EventRegistry:
    return EventRegistry()


@pytest.fixture
def container(log: Log) -> AsyncContainer:
    def unit() -> Iterator[Unit]:
        yield Unit()
        log.closed += 1

    provider = Provider(scope=Scope.REQUEST)
    provider.provide(lambda: log, provides=Log, scope=Scope.APP)
    provider.provide(unit)
    provider.provide_all(Welcome, Audit, Meeting, OtherMeeting, Broken)
    return make_async_container(provider)


def dispatcher(container: AsyncContainer, registry: EventRegistry) -> EventDispatcher:
    return InProcessEventDispatcher(container, registry)


@pytest.mark.requirement("B5")
async def test_every_handler_gets_the_event_in_a_scope_of_its_own(
    container: AsyncContainer, registry: EventRegistry, log: Log
) -> None:
    registry.handles(UserCreated)(Welcome)
    registry.handles(UserCreated)(Audit)
    event = UserCreated(name="ann")
    await dispatcher(container, registry).dispatch([event])
    assert sorted(log.seen, key=str) == [("Audit", event), ("Welcome", event)]
    assert len(set(log.units)) == log.closed == 2


@pytest.mark.requirement("B5")
async def test_the_handlers_of_an_event_run_at_the_same_time(
    container: AsyncContainer, registry: EventRegistry, log: Log
) -> None:
    registry.handles(UserCreated)(Meeting)
    registry.handles(UserCreated)(OtherMeeting)
    await dispatcher(container, registry).dispatch([UserCreated(name="ann")])
    assert {name for name, _ in log.seen} == {"Meeting", "OtherMeeting"}


@pytest.mark.requirement("B5")
async def test_a_dispatcher_made_in_a_request_leaves_the_requests_unit_alone(
    container: AsyncContainer, registry: EventRegistry, log: Log
) -> None:
    registry.handles(UserCreated)(Welcome)
    async with container() as request, request() as action:
        own = await request.get(Unit)
        for inner in (request, action):
            await dispatcher(inner, registry).dispatch([UserCreated(name="ann")])
        assert own not in log.units
    assert len(set(log.units)) == 2


async def test_events_come_one_after_the_other(
    container: AsyncContainer, registry: EventRegistry, log: Log
) -> None:
    registry.handles(UserCreated)(Welcome)
    events = [UserCreated(name=name) for name in ("ann", "bob", "cid")]
    delayed = (Delayed(event, datetime.now(UTC)) for event in events)  # are handled now
    await dispatcher(container, registry).dispatch(delayed)
    assert [event for _, event in log.seen] == events


@pytest.mark.requirement("B6")
@pytest.mark.parametrize(("bad", "reason"), [(Broken, "no mail"), (Unknown, "cannot be built")])
async def test_a_handler_that_fails_or_cannot_be_resolved_is_logged_and_stops_nobody(
    container: AsyncContainer,
    registry: EventRegistry,
    log: Log,
    caplog: pytest.LogCaptureFixture,
    bad: type[Handler],
    reason: str,
) -> None:
    registry.handles(UserCreated)(bad)
    registry.handles(UserCreated)(Welcome)
    event = UserCreated(name="ann")
    await dispatcher(container, registry).dispatch([event, event])
    assert log.seen == [("Welcome", event)] * 2
    assert [line.levelno for line in caplog.records] == [logging.ERROR] * 2
    assert bad.__name__ in caplog.text
    assert reason in caplog.text
    assert f"UserCreated, event {event.event_id}" in caplog.text


@pytest.mark.requirement("B7")
async def test_an_event_without_a_handler_is_ignored_in_silence(
    container: AsyncContainer, registry: EventRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = [
        UserCreated(name="ann"),
        UntypedEvent(event_type="user.created", payload={}),
    ]
    await dispatcher(container, registry).dispatch(events)
    assert caplog.records == []


@pytest.mark.parametrize("name", ["UserCreated", "*"])
async def test_handlers_of_a_name_get_an_untyped_event_as_they_do_from_a_relay(
    container: AsyncContainer, registry: EventRegistry, log: Log, name: str
) -> None:
    registry.handles(name)(Audit)
    event = UserCreated(name="ann")
    untyped = UntypedEvent(event_type="UserCreated", payload={"name": "bob"})
    await dispatcher(container, registry).dispatch([event, untyped])
    [(_, first), (_, second)] = log.seen
    assert (first.event_id, first.aggregate_id) == (event.event_id, "ann")
    assert first.payload["name"] == "ann"
    assert second is untyped


async def test_one_event_instead_of_a_list_is_refused(
    container: AsyncContainer, registry: EventRegistry
) -> None:
    one: Any = UserCreated(name="ann")
    with pytest.raises(CaptureError, match="instead of a list"):
        await dispatcher(container, registry).dispatch(one)
