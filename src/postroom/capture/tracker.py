"""What the interceptor knows of a session: its aggregates with events, and what is captured."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple
from weakref import ref

from sqlalchemy.orm import Session, SessionTransaction
from sqlalchemy.orm.attributes import instance_state

from postroom.events.aggregate import RAISE_LISTENER, AggregateRoot
from postroom.events.snapshot import Snapshot
from postroom.record import OutboxRecord


class Raised(NamedTuple):
    """An event with the aggregate that raised it, and its number in order of raising."""

    number: int
    event: Snapshot
    aggregate: AggregateRoot


class Captured(NamedTuple):
    """A raised event, and the record that was made of it."""

    raised: Raised
    record: OutboxRecord


@dataclass(slots=True)
class Tracker:
    """Keeps a session's aggregates with events, and what each transaction captured of them."""

    aggregates: dict[OutboxRecord, AggregateRoot] = field(default_factory=dict)
    """Of records that go where their aggregate goes, if the session has several databases."""
    noted: dict[int, AggregateRoot] = field(default_factory=dict)
    """Aggregates with events to capture, by `id()`: some cannot be hashed."""
    _captured: dict[SessionTransaction, list[Captured]] = field(default_factory=dict)
    _committed: set[SessionTransaction] = field(default_factory=set)
    _has_committed: bool = False
    _last_ended: ref[SessionTransaction] | None = None

    def note(self, aggregate: AggregateRoot) -> None:
        """Hold on to an aggregate with events until they are captured.

        Its state stays as it is: to mark it dirty would have a rollback expire it.
        """
        self.noted[id(aggregate)] = aggregate
        session = instance_state(aggregate).session
        if session is not None and session.autobegin and not session.in_transaction():
            session.begin()  # as a change would; without one, a rollback would not be noticed

    def waiting(self, session: Session) -> list[Raised]:
        """Give what the session's aggregates have raised, in order of raising."""
        raised = [
            Raised(number, event, aggregate)
            for aggregate in self.noted.values()
            if instance_state(aggregate).session is session
            for number, event in aggregate._by_id().values()
        ]
        return sorted(raised, key=attrgetter("number"))

    def late(self, session: Session) -> list[AggregateRoot]:
        """Give the aggregates that have raised events since a commit, and changed nothing.

        One that has changed is given up with its change if the session is closed.
        """
        if not self.noted or not self._has_committed or self._captured:
            return []
        states = [(instance_state(each), each) for each in self.noted.values()]
        return [
            aggregate
            for state, aggregate in states
            if state.session is session and state.persistent and not state.modified
        ]

    def take(self, session: Session, captured: Sequence[Captured]) -> None:
        """Clear captured events from their aggregates, for as long as the transaction stands."""
        for raised, _ in captured:
            raised.aggregate._take(raised.event)
            if not raised.aggregate._by_id():
                self.noted.pop(id(raised.aggregate), None)
        self._captured.setdefault(current_transaction(session), []).extend(captured)

    def committed(self, session: Session) -> None:
        """Note that the transaction (or savepoint) of the moment has committed."""
        self._committed.add(current_transaction(session))

    def ended(self, session: Session, transaction: SessionTransaction) -> None:
        """Settle what a transaction captured: pass it on, forget it, or give it back."""
        if self._last_ended is not None and self._last_ended() is transaction:
            return  # a class of sessions and a subclass of it are both listened to
        self._last_ended = ref(transaction)
        captured = self._captured.pop(transaction, [])
        committed = transaction in self._committed
        self._committed.discard(transaction)
        if not committed:
            self._give_back(session, captured, nested=transaction.nested)
            self._save_again(session)
        elif transaction.parent is not None:
            self._captured.setdefault(transaction.parent, []).extend(captured)
        if transaction.parent is None:  # what somebody else collected is no longer of interest
            self._has_committed |= committed
            self.aggregates.clear()
            self.noted = {key: one for key, one in self.noted.items() if one._by_id()}

    def closed(self) -> None:
        """Note the end of the session, which may be used again."""
        self._has_committed = False

    def _give_back(self, session: Session, captured: Sequence[Captured], *, nested: bool) -> None:
        """Give new and detached aggregates their events back; forget those of the others.

        What is uncaptured when a savepoint ends was raised in it: its beginning captured the rest.
        """
        for raised, _ in captured:
            raised.aggregate._give_back(raised.number, raised.event)
        for aggregate in [*self.noted.values(), *(raised.aggregate for raised, _ in captured)]:
            state = instance_state(aggregate)
            if state.session is session and state.persistent and (nested or state.expired):
                aggregate.clear_events()

    def _save_again(self, session: Session) -> None:
        """Keep the records of enclosing transactions that a savepoint took along.

        A record that is made after a flush is inserted by the next one, and that may be in a
        savepoint which is then rolled back.
        """
        for captured in self._captured.values():
            records = [record for _, record in captured if instance_state(record).transient]
            session.add_all(records)


def tracker_of(session: Session) -> Tracker:
    """Give the tracker of a session, made when it is first asked for."""
    tracker = session.info.get(RAISE_LISTENER)
    if not isinstance(tracker, Tracker):
        tracker = session.info[RAISE_LISTENER] = Tracker()
    return tracker


def current_transaction(session: Session) -> SessionTransaction:
    """Give the savepoint a session is in, or else its transaction, which begins if need be."""
    return open_transaction(session) or session.begin()


def open_transaction(session: Session) -> SessionTransaction | None:
    """Give the savepoint a session is in, or else its transaction, if there is one."""
    return session.get_nested_transaction() or session.get_transaction()
