"""Warns of events in sessions that nobody captures, if sessions of this process are captured.

It listens to SQLAlchemy's own `Session`, from the import on: to add a listener later would break a
commit of another thread. Where there are no aggregates with events, it does nothing. It notes the
aggregates that are added to captured sessions too.
"""

import warnings
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import event
from sqlalchemy.orm import InstanceState, Session, SessionTransaction, object_session
from sqlalchemy.orm.attributes import instance_state

from postroom.capture.repeats import captured_ids
from postroom.capture.targets import INTERCEPTOR, interceptors_of, names_of, stack_level
from postroom.capture.tracker import tracker_of
from postroom.errors import CaptureError, CaptureWarning
from postroom.events.aggregate import RAISE_LISTENER, AggregateRoot

_NOTED: Final = "postroom.uncaptured"
"""Where the `info` of a session keeps its aggregates with events."""


class _Uncaptured:
    """Hears of the aggregates of a session that raise events."""

    def note(self, aggregate: AggregateRoot) -> None:
        """Hold on to an aggregate until the commit: the session alone would not."""
        session = object_session(aggregate)
        if session is not None and next(interceptors_of(Session), None) is not None:
            session.info.setdefault(_NOTED, {})[id(aggregate)] = aggregate


_uncaptured: Final = _Uncaptured()


@event.listens_for(Session, "after_transaction_create")
def _listen(session: Session, transaction: SessionTransaction) -> None:
    if hasattr(session, INTERCEPTOR):
        return
    session.info.setdefault(RAISE_LISTENER, _uncaptured)
    if transaction.parent is None and (noted := session.info.get(_NOTED)):  # and closed since
        session.info[_NOTED] = {
            key: each for key, each in noted.items() if instance_state(each).session is session
        }


@event.listens_for(Session, "after_attach", raw=True)  # for all sessions: to listen twice costs
def _note_attached(session: Session, state: InstanceState[Any]) -> None:
    if issubclass(state.class_, AggregateRoot):
        aggregate = state.obj()
        if aggregate is not None and aggregate._by_id():
            is_captured = hasattr(session, INTERCEPTOR)
            listener = tracker_of(session) if is_captured else _uncaptured
            listener.note(aggregate)


@event.listens_for(Session, "before_commit")
def _check(session: Session) -> None:
    if not session.info.get(_NOTED) or session.in_nested_transaction():
        return
    texts = list(_texts(session))
    if texts and any(each.uncaptured == "error" for each in interceptors_of(Session)):
        raise CaptureError(texts[0])
    del session.info[_NOTED]
    for text in texts:
        warnings.warn(text, CaptureWarning, stacklevel=stack_level())


@event.listens_for(Session, "after_soft_rollback")
def _forget(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is None:
        session.info.pop(_NOTED, None)


def _texts(session: Session) -> Iterator[str]:
    """Name the aggregates with events that no way has saved."""
    saved = captured_ids(session)
    for aggregate in session.info[_NOTED].values():
        left = [each for each in aggregate.domain_events if each.event_id not in saved]
        if left and instance_state(aggregate).session is session:
            yield (
                f"{type(aggregate).__name__} has events that will not be saved ({names_of(left)}):"
                " this session is not captured, though others of this process are. Make it with"
                " the sessionmaker that is captured, capture its own too (outbox.capture(sessions))"
                ", or dispatch what collect_events() returns before the commit."
            )
