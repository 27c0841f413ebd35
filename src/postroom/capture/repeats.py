"""Which events a session's transactions have captured: an event goes into an outbox once."""

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from postroom.errors import CaptureError
from postroom.events.description import Description
from postroom.record import OutboxRecord

KEY = "postroom.captured_ids"
"""Where the `info` of a session keeps its `CapturedIds`."""

CapturedId = tuple[type[OutboxRecord], UUID]


class CapturedIds:
    """The ids that each open transaction of a session has captured."""

    def __init__(self) -> None:
        self._of: dict[SessionTransaction, set[CapturedId]] = {}
        self._listening = False

    @classmethod
    def of(cls, session: Session) -> "CapturedIds":
        """Give those of a session."""
        known: CapturedIds | None = session.info.get(KEY)
        if known is None:
            known = session.info[KEY] = cls()
        return known

    def check(
        self, session: Session, descriptions: Sequence[Description], record: type[OutboxRecord]
    ) -> None:
        """Refuse an event that this transaction, or one around it, has captured."""
        if len(descriptions) > 1:
            check_once(descriptions)
        if not self._of:
            return
        # What a transaction captured is forgotten when it has ended: here at the latest.
        self._of = {each: self._of[each] for each in _open(session) if each in self._of}
        for ids in self._of.values():
            for description in descriptions:
                if (record, description.event_id) in ids:
                    raise _repeated(description)

    def add(self, session: Session, records: Iterable[OutboxRecord]) -> None:
        """Note what the current transaction has captured."""
        current = next(_open(session), None)
        if current is None:
            return  # there were no records
        self._of.setdefault(current, set()).update([(type(each), each.id) for each in records])
        if current.nested and not self._listening:
            self._listening = True
            event.listen(session, "after_commit", self._released)

    def _released(self, session: Session) -> None:
        """Pass what a savepoint captured on to the transaction around it."""
        current = next(_open(session), None)
        if current is not None and current.nested and current.parent is not None:
            self._of.setdefault(current.parent, set()).update(self._of.pop(current, ()))


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


def _open(session: Session) -> Iterator[SessionTransaction]:
    """Give the savepoint that a session is in, those around it, and the transaction."""
    current = session.get_nested_transaction() or session.get_transaction()
    while current is not None:
        yield current
        current = current.parent
