"""An event goes into an outbox once: the second time is refused, and not by the database."""

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from sqlalchemy import MetaData, create_engine, func, select
from sqlalchemy.orm import Session

from postroom import CaptureError, Delayed, EventBus, Outbox, OutboxRecord, UntypedEvent


class OnceRecord(OutboxRecord):
    pass


outbox = Outbox(MetaData(), record=OnceRecord)


def happened(**values: Any) -> UntypedEvent:
    return UntypedEvent(**{"event_type": "thing.happened", "payload": {}} | values)


def dispatch(session: Session, *events: Any) -> None:
    outbox.dispatcher(session).dispatch_sync(events)


def emit(session: Session, *events: Any) -> None:
    bus = EventBus()
    for event in events:
        bus.emit(event)
    outbox.middleware().flush_sync(session, bus)


@pytest.fixture
def session() -> Iterator[Session]:
    engine = create_engine("sqlite://")
    outbox.metadata.create_all(engine)
    with Session(engine) as session:
        yield session
    engine.dispose()


def count(session: Session) -> int | None:
    return session.scalar(select(func.count()).select_from(OnceRecord))


@pytest.mark.parametrize("again", [dispatch, emit])
@pytest.mark.parametrize("flush", [True, False])
def test_an_event_is_dispatched_once_in_a_transaction(
    session: Session, again: Callable[..., None], flush: bool
) -> None:
    event = happened()
    dispatch(session, event)
    if flush:
        session.flush()
    fresh = happened()
    with pytest.raises(CaptureError, match=rf"thing\.happened.*{event.event_id}.*make a new one"):
        again(session, fresh, event)
    again(session, fresh)  # nothing of it had been captured
    session.commit()
    assert count(session) == 2


def test_an_event_is_given_once_in_a_call(session: Session) -> None:
    event = happened()
    with pytest.raises(CaptureError, match="already"):
        dispatch(session, event, Delayed(event, until=datetime.now(UTC)))
    assert not session.new


@pytest.mark.parametrize("depth", [1, 2])
def test_a_savepoint_knows_what_was_captured_around_it(session: Session, depth: int) -> None:
    event = happened()
    dispatch(session, event)
    for _ in range(depth):
        session.begin_nested()
    with pytest.raises(CaptureError, match="already"):
        dispatch(session, event)


@pytest.mark.parametrize("depth", [1, 2])
def test_what_a_released_savepoint_captured_counts(session: Session, depth: int) -> None:
    event = happened()
    savepoints = [session.begin_nested() for _ in range(depth)]
    dispatch(session, event)
    for savepoint in reversed(savepoints):
        savepoint.commit()
    with pytest.raises(CaptureError, match="already"):
        dispatch(session, event)
    session.commit()
    assert count(session) == 1


@pytest.mark.parametrize("release_inner", [True, False])
def test_what_was_rolled_back_can_be_dispatched_again(
    session: Session, release_inner: bool
) -> None:
    event = happened()
    outer, inner = session.begin_nested(), session.begin_nested()
    dispatch(session, event)
    session.flush()
    if release_inner:
        inner.commit()
    outer.rollback()
    dispatch(session, event)
    session.rollback()
    dispatch(session, event)
    session.commit()
    assert count(session) == 1


@pytest.mark.no_cover
def test_a_call_costs_the_same_however_many_came_before_it_in_the_transaction(
    session: Session,
) -> None:
    """A check that compared, or copied, all that was captured before would cost more each time."""
    dispatch(session, happened())
    first = least_cost(session)
    for _ in range(1_000):
        dispatch(session, happened())
    then = least_cost(session)
    session.expunge_all()
    assert then.calls <= first.calls + 10
    assert then.bytes <= first.bytes + 10_000  # a copy of 1,000 ids has 30,000 at least


class Cost(NamedTuple):
    """The functions that a dispatch calls, and the memory that it needs at once."""

    calls: int
    bytes: int


def least_cost(session: Session) -> Cost:
    """Return the least of several dispatches: a dictionary may grow in one of them."""
    costs = [cost(session) for _ in range(5)]
    return Cost(min(each.calls for each in costs), min(each.bytes for each in costs))


def cost(session: Session) -> Cost:
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    event = happened()
    before = sys.getprofile()
    tracemalloc.start()
    sys.setprofile(count)
    try:
        dispatch(session, event)
    finally:
        sys.setprofile(before)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return Cost(calls, peak)
