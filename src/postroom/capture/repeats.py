"""Refuses an event that a transaction has captured already."""

from collections.abc import Iterable, Sequence
from uuid import UUID
from weakref import WeakKeyDictionary

from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from postroom.capture.tracker import open_transaction
from postroom.errors import CaptureError
from postroom.events.description import Description
from postroom.record import OutboxRecord

CapturedId = tuple[type[OutboxRecord], UUID]

# Weak: a transaction and its session refer to each other, and such a circle is freed late.
_captured: WeakKeyDictionary[SessionTransaction, set[CapturedId]] = WeakKeyDictionary()


def refuse_repeats(
    session: Session, descriptions: Sequence[Description], record: type[OutboxRecord]
) -> None:
    """Refuse an event that this transaction, or one around it, has captured."""
    if len(descriptions) > 1:
        check_once(descriptions)
    transaction = open_transaction(session)
    while transaction is not None:
        ids = _captured.get(transaction, ())
        for description in descriptions if ids else ():
            if (record, description.event_id) in ids:
                raise _repeated(description)
        transaction = transaction.parent


def captured_ids(session: Session) -> set[UUID]:
    """Give the ids of the events that the current transaction has captured."""
    current = open_transaction(session)
    return {event_id for _, event_id in _captured.get(current, ())} if current else set()


def note_captured(session: Session, records: Iterable[OutboxRecord]) -> None:
    """Note what the current transaction has captured."""
    current = open_transaction(session)
    if current is None:
        return  # there were no records
    _captured.setdefault(current, set()).update([(type(each), each.id) for each in records])
    if current.nested and not event.contains(session, "after_commit", _released):
        event.listen(session, "after_commit", _released)


def _released(session: Session) -> None:
    """Pass what a savepoint captured on to the transaction around it."""
    current = open_transaction(session)
    if current is not None and current.nested and current.parent is not None:
        _captured.setdefault(current.parent, set()).update(_captured.pop(current, ()))


def check_once(descriptions: Iterable[Description]) -> None:
    """Refuse an event that is given twice. For one that came before, the database does."""
    given: set[UUID] = set()
    for description in descriptions:
        if description.event_id in given:
            raise _repeated(description)
        given.add(description.event_id)


def _repeated(description: Description) -> CaptureError:
    return CaptureError(
        f"cannot capture {description.event_type}: this transaction has captured the event"
        f" {description.event_id} already. Raise, emit, dispatch or save an event once and in one"
        " way, and make a new one each time that something happens."
    )
