"""What the interceptor knows of one session: who has events, and which transaction took them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import inspect
from sqlalchemy.orm import InstanceState, Session, SessionTransaction
from sqlalchemy.orm.attributes import flag_dirty

from postroom.events.aggregate import RAISE_LISTENER, AggregateRoot, RaisedEvent
from postroom.events.event import Event


@dataclass(frozen=True, slots=True)
class Raised:
    """An event, with the aggregate that raised it."""

    aggregate: AggregateRoot
    item: RaisedEvent

    @property
    def event(self) -> Event:
        """The event itself."""
        return self.item[1]


@dataclass(slots=True)
class Tracker:
    """Keeps a session's aggregates with events, and what each transaction captured of them."""

    flushing: bool = False
    _noted: list[AggregateRoot] = field(default_factory=list)
    _captured: dict[SessionTransaction, list[Raised]] = field(default_factory=dict)
    _committed: set[SessionTransaction] = field(default_factory=set)

    def note(self, aggregate: AggregateRoot) -> None:
        """Hold on to an aggregate with events, and see to it that there will be a flush."""
        self._noted.append(aggregate)
        if not self.flushing:  # during one, SQLAlchemy takes the mark off again, and warns
            flag_dirty(aggregate)

    def waiting(self, session: Session) -> list[Raised]:
        """Give what the session's aggregates have raised, in order of raising."""
        if not self._noted:
            return []
        self._noted = [
            aggregate
            for aggregate in {id(aggregate): aggregate for aggregate in self._noted}.values()
            if aggregate.domain_events and _state(aggregate).session is session
        ]
        raised = [
            Raised(aggregate, item) for aggregate in self._noted for item in aggregate._raised()
        ]
        return sorted(raised, key=lambda one: one.item[0])

    def take(self, session: Session, captured: Sequence[Raised]) -> None:
        """Clear captured events from their aggregates, for as long as the transaction stands."""
        taken = {one.item[0] for one in captured}
        for aggregate in self._noted:
            raised = aggregate._raised()
            raised[:] = [item for item in raised if item[0] not in taken]
        self._captured.setdefault(current_transaction(session), []).extend(captured)

    def committed(self, session: Session) -> None:
        """Note that the transaction (or savepoint) of the moment has committed."""
        self._committed.add(current_transaction(session))

    def ended(self, transaction: SessionTransaction) -> None:
        """Settle what a transaction captured: pass it on, forget it, or give it back."""
        self.flushing = False
        if not transaction.nested and transaction.parent is not None:
            return  # a flush, not a transaction
        captured = self._captured.pop(transaction, [])
        if transaction not in self._committed:
            self._give_back(captured)
        elif transaction.parent is not None:
            self._captured.setdefault(transaction.parent, []).extend(captured)
        self._committed.discard(transaction)

    def _give_back(self, captured: Sequence[Raised]) -> None:
        for one in captured:
            one.aggregate._give_back([one.item])
        for aggregate in [*self._noted, *(one.aggregate for one in captured)]:
            # What SQLAlchemy has set back to the database's state did not happen.
            if _state(aggregate).persistent and _state(aggregate).expired:
                aggregate.clear_events()


def tracker_of(session: Session) -> Tracker:
    """Give the tracker of a session, made when it is first asked for."""
    tracker: Tracker | None = session.info.get(RAISE_LISTENER)
    if tracker is None:
        tracker = session.info[RAISE_LISTENER] = Tracker()
    return tracker


def current_transaction(session: Session) -> SessionTransaction:
    """Give the savepoint a session is in, or else its transaction."""
    nested = session.get_nested_transaction()
    return nested or session.get_transaction() or session.begin()


def _state(aggregate: AggregateRoot) -> InstanceState[AggregateRoot]:
    state: InstanceState[AggregateRoot] = inspect(aggregate)
    return state
