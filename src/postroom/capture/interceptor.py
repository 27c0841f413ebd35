"""`DomainEventOutboxInterceptor`: a session saves the events of the aggregates that it saves.

Where it looks, and why there:

- `raise_event`, `add`: the aggregate is noted, and its state left as it is
- before a flush: captures what was raised, in order of raising
- after a flush: captures what waited for an id of the database's making, or was raised meanwhile
- before a savepoint: captures what no flush has seen
- when a commit has nothing more to flush: captures what its listeners raised, to be flushed too
- at the end of a transaction: if it committed, all is well, and a savepoint's captures become its
  parent's; if not, an aggregate that keeps its state gets its events back, in front of newer ones,
  and one whose state SQLAlchemy sets back loses them with it
"""

import json
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, get_args

from sqlalchemy import event, inspect
from sqlalchemy.orm import InstanceState, ORMExecuteState, Session, SessionTransaction

import postroom.capture.uncaptured  # noqa: F401 - listens to the sessions that are not captured
from postroom.capture.capture import capture, describe_for
from postroom.capture.databases import follow_aggregates, note_aggregates, stop_following
from postroom.capture.outboxes import CaptureSettings, CapturingOutbox, settings_of
from postroom.capture.targets import (
    INTERCEPTOR,
    CaptureTarget,
    Interceptor,
    Uncaptured,
    interceptors_of,
    session_class,
    sweep_last,
)
from postroom.capture.tracker import Captured, Raised, tracker_of
from postroom.errors import CaptureError, CaptureWarning, ConfigurationError
from postroom.events.aggregate import AggregateRoot
from postroom.events.codec import Unfit
from postroom.events.description import Description, id_text, key_text, type_text
from postroom.events.keys import aggregate_type_of
from postroom.events.payload import explain


class DomainEventOutboxInterceptor:
    """Captures the events of every aggregate that a session saves. `Outbox.capture` installs it.

    `outbox` may be left out if the process has one outbox. `uncaptured` is "warn" or "error":
    whether the commit of another session, which nobody captures, warns of its aggregates' events,
    or raises CaptureError.
    """

    def __init__(
        self, *, outbox: CapturingOutbox | None = None, uncaptured: Uncaptured = "warn"
    ) -> None:
        if uncaptured not in get_args(Uncaptured):
            raise ConfigurationError(f"uncaptured is {uncaptured!r}. It is 'warn' or 'error'.")
        self._outbox = outbox
        self.uncaptured = uncaptured

    def install(self, sessions: CaptureTarget) -> None:
        """Listen to all sessions of a maker, or of a class. A second call changes nothing.

        Raises ConfigurationError if another outbox captures these sessions.
        """
        target = session_class(sessions)
        for other in interceptors_of(target):
            self._check_same_outbox(other, target)
        if hasattr(target, INTERCEPTOR):
            return
        sweep_last(target, self)
        setattr(target, INTERCEPTOR, self)
        event.listen(target, "after_transaction_create", self._transaction_created)
        event.listen(target, "before_flush", self._before_flush)
        event.listen(target, "after_flush_postexec", self._after_flush)
        event.listen(target, "after_commit", _note_commit)
        event.listen(target, "after_transaction_end", _settle)
        event.listen(target, "do_orm_execute", _warn_of_bulk_statement)

    def sweep(self, session: Session) -> None:
        """Capture the raised events of the session's aggregates whose ids are known."""
        tracker = tracker_of(session)
        if not tracker.noted or not session.is_active:  # if it is not, it is being rolled back
            return
        waiting = tracker.waiting(session)
        if not waiting:
            return
        settings = settings_of(self._outbox)
        with session.no_autoflush:  # a flush in the middle of it would sweep them too
            descriptions = list(_described(waiting, settings))
            classes = {type(raised.aggregate) for raised in waiting}
            records = capture(session, descriptions, settings, classes)
        # Fewer than are waiting, if the rest of them wait for an id.
        captured = list(map(Captured, waiting, records))
        note_aggregates(session, captured)
        tracker.take(session, captured)

    def _before_flush(self, session: Session, *_: Any) -> None:
        self.sweep(session)
        follow_aggregates(session)

    def _after_flush(self, session: Session, *_: Any) -> None:
        self.sweep(session)

    def _transaction_created(self, session: Session, transaction: SessionTransaction) -> None:
        if transaction.nested:  # the current transaction is still the one around it
            self.sweep(session)
        elif transaction.parent is None:
            tracker_of(session)

    def _check_same_outbox(self, other: Interceptor, target: type[Session]) -> None:
        if not isinstance(other, DomainEventOutboxInterceptor) or other._outbox is self._outbox:
            return
        if settings_of(other._outbox) is not settings_of(self._outbox):
            raise ConfigurationError(
                f"sessions of {target.__name__} are captured by another outbox already: an event"
                " is saved in one. Give each outbox a sessionmaker of its own."
            )


def _described(waiting: Iterable[Raised], settings: CaptureSettings) -> Iterator[Description]:
    for raised in waiting:
        description = _with_key(describe_for(raised.event, settings), raised.aggregate)
        if description.aggregate_id is None:
            return  # and what was raised after it waits too, to keep the order
        yield description


def _with_key(description: Description, aggregate: AggregateRoot) -> Description:
    name = type(aggregate).__name__
    try:
        if description.aggregate_type is None:
            description = description._replace(
                aggregate_type=type_text(aggregate_type_of(type(aggregate)))
            )
        if description.aggregate_id is None:
            description = description._replace(aggregate_id=id_text(_identity(aggregate)))
    except Unfit as unfit:
        raise CaptureError(f"cannot capture the events of {name}: {explain(unfit)}") from unfit
    return description


def _identity(aggregate: AggregateRoot) -> str | None:
    state: InstanceState[AggregateRoot] = inspect(aggregate)
    # A saved one's is known, even when it is expired and would have to be loaded.
    identity = state.identity or state.mapper.primary_key_from_instance(aggregate)
    parts = [key_text(part) for part in identity]
    if None in parts:
        return None
    return parts[0] if len(parts) == 1 else json.dumps(parts)


def _note_commit(session: Session) -> None:
    tracker_of(session).committed(session)


def _settle(session: Session, transaction: SessionTransaction) -> None:
    stop_following(session)
    if transaction.nested or transaction.parent is None:  # else it is a flush
        tracker_of(session).ended(session, transaction)


def _warn_of_bulk_statement(execution: ORMExecuteState) -> None:
    if not (execution.is_insert or execution.is_update or execution.is_delete):
        return
    mapper = execution.bind_mapper
    if mapper is not None and issubclass(mapper.class_, AggregateRoot):
        warnings.warn(
            f"a bulk statement on {mapper.class_.__name__} raises no events: postroom sees"
            " aggregates, not rows. Load and change them one by one where their events matter.",
            CaptureWarning,
            stacklevel=2,
        )
