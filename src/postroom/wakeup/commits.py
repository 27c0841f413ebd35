"""Calls the relays of this process after a commit with records."""

import logging
from collections.abc import Callable, Set
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from sqlalchemy import Connection, RootTransaction, event
from sqlalchemy.orm import Session, SessionTransaction, object_session

from postroom.capture.tracker import current_transaction
from postroom.errors import traceable
from postroom.record import OutboxRecord

logger = logging.getLogger(__name__)

Callback = Callable[[Set[int]], object]
"""Takes the partitions of the records that were committed."""


class Inserted(NamedTuple):
    """Records that a transaction has inserted."""

    connection: Connection
    partitions: set[int]


class CommitSignal:
    """Tells its subscribers that records of one class have been committed.

    A session is listened to from the first record that it inserts while somebody subscribes. (A
    listener on SQLAlchemy's `Session` would hear every session of the process; and to add or remove
    one while another thread commits would break that commit.)
    """

    def __init__(self, record_class: type[OutboxRecord]) -> None:
        self._callbacks: dict[object, Callback] = {}
        self._sessions: WeakSet[Session] = WeakSet()
        # By transaction: what is rolled back is forgotten along with it.
        self._inserted: WeakKeyDictionary[SessionTransaction, Inserted] = WeakKeyDictionary()
        self._connections: WeakSet[Connection] = WeakSet()
        self._saved: WeakKeyDictionary[RootTransaction, set[int]] = WeakKeyDictionary()
        event.listen(record_class, "after_insert", self._note)

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Call this after each commit of records; what is returned ends it."""
        subscription = object()
        self._callbacks[subscription] = callback

        def unsubscribe() -> None:
            self._callbacks.pop(subscription, None)

        return unsubscribe

    def wake(self, partitions: Set[int]) -> None:
        """Call the subscribers: there are committed records in these partitions."""
        for callback in tuple(self._callbacks.values()):
            try:
                callback(partitions)
            except Exception as error:
                text = "postroom: %r, which is called after a commit, failed"
                logger.error(text, callback, exc_info=traceable(error))

    def note_saved(self, connection: Connection, partitions: Set[int]) -> None:
        """Call the subscribers when this connection commits its transaction.

        A savepoint that is rolled back is not seen: they may be called for nothing.
        """
        transaction = connection.get_transaction()
        if not self._callbacks or transaction is None:
            return
        self._saved.setdefault(transaction, set()).update(partitions)
        if connection not in self._connections:
            self._connections.add(connection)
            call_after_commit(connection, self._connection_committed)

    def _connection_committed(self, transaction: RootTransaction) -> None:
        partitions = self._saved.pop(transaction, None)
        if partitions is not None:
            self.wake(partitions)

    def _note(self, _: Any, connection: Connection, record: OutboxRecord) -> None:
        if not self._callbacks:
            return
        session = object_session(record)
        if session is None:
            return
        transaction = current_transaction(session)
        inserted = self._inserted.get(transaction) or Inserted(connection, set())
        inserted.partitions.add(record.partition)
        self._inserted[transaction] = inserted
        if session not in self._sessions:
            self._sessions.add(session)
            event.listen(session, "after_commit", self._committed)

    def _committed(self, session: Session) -> None:
        transaction = current_transaction(session)
        inserted = self._inserted.pop(transaction, None)
        if inserted is None:
            return
        if transaction.nested and transaction.parent is not None:  # a savepoint was released
            outer = self._inserted.setdefault(transaction.parent, inserted)
            outer.partitions.update(inserted.partitions)
        elif not inserted.connection.in_transaction():  # as in one that the session only joined
            self.wake(inserted.partitions)


def call_after_commit(
    connection: Connection, callback: Callable[[RootTransaction], object]
) -> None:
    """Call this after each COMMIT of a connection.

    SQLAlchemy has an event before the COMMIT, and none after it. If a version of it has another
    name for the method, nobody is called, and relays see the records when they poll.
    """
    commit: Callable[[], None] | None = getattr(connection, "_commit_impl", None)
    if commit is None:
        return

    def commit_and_call() -> None:
        transaction = connection.get_transaction()
        commit()
        if transaction is not None:
            callback(transaction)

    connection.__dict__["_commit_impl"] = commit_and_call
