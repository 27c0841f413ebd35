"""The receipt of a handler, in the handler's own transaction."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sqlalchemy import Connection, event, insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session, SessionTransaction

from postroom.capture.connection_kinds import is_autocommit
from postroom.errors import ConfigurationError, OutageError, PostroomError, error_text, traceable
from postroom.inbox.receipts import Receipts
from postroom.record import ClaimedRecord

log = logging.getLogger(__name__)

Waiting = Callable[[], AbstractContextManager[None]]

TAKE_BACK_PAUSE = 1.0
"""Seconds until the next attempt, while the database cannot be used."""


class AlreadyHandledError(PostroomError):
    """Raised within a handler's transaction when the handler is done with the record already."""


class SessionReceipt:
    """Puts a receipt into the first transaction of a session that commits.

    Until then each transaction begins with the receipt. A second worker that runs the same handler
    for the same record waits until that transaction ends, within `waiting`: the wait does not
    count for the time that the handler may take.
    """

    def __init__(
        self, inbox: Receipts, message_id: str, consumer: str, waiting: Waiting = nullcontext
    ) -> None:
        self.kept = False
        """Whether a transaction has committed with the receipt in it."""
        self.repeated = False
        """Whether another worker's receipt was there before."""
        self._inbox = inbox
        self._receipt = (message_id, consumer)
        self._waiting = waiting
        self._session: Session | None = None
        self._added_in: SessionTransaction | None = None

    async def follow(self, session: object) -> None:
        """Watch the transactions of a session, one that has begun included."""
        if isinstance(session, AsyncSession):
            await session.run_sync(self._follow)
        elif isinstance(session, Session):
            self._follow(session)
        else:
            raise ConfigurationError(
                f"session= stands for a {type(session).__name__}. Name what the container gives"
                " a Session or an AsyncSession for."
            )

    def _follow(self, session: Session) -> None:
        self._session = session
        for name, listener in self._listeners():
            event.listen(session, name, listener)
        root = session.get_transaction()
        if root is None:
            return
        connection = session.connection(bind_arguments={"clause": insert(self._inbox.table)})
        if self._added_in is None:  # else it began just now, and was noticed
            self._write(root, connection)

    def let_go(self) -> None:
        """Stop watching."""
        if self._session is not None:
            for name, listener in self._listeners():
                event.remove(self._session, name, listener)
        self._session = None

    def _listeners(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        yield "after_begin", self._begun
        yield "before_commit", self._committing
        yield "after_commit", self._committed

    def _begun(
        self, session: Session, transaction: SessionTransaction, connection: Connection
    ) -> None:
        if transaction.parent is None and not self.kept and self._is_at(session, connection):
            self._write(transaction, connection)

    def _is_at(self, session: Session, connection: Connection) -> bool:
        # A session may have several databases; the inbox is in one.
        return session.get_bind(clause=insert(self._inbox.table)).engine is connection.engine

    def _write(self, root: SessionTransaction, connection: Connection) -> None:
        if is_autocommit(connection):
            raise ConfigurationError(
                "the session of a handler is in AUTOCOMMIT, so that its receipt would stay when the"
                " handler fails. Give handlers a session with transactions."
            )
        self._added_in = root
        with self._waiting():
            self.repeated = not self._inbox.add(connection, *self._receipt)
        self._refuse_repetition()

    def _refuse_repetition(self) -> None:
        if self.repeated:
            raise AlreadyHandledError("{1} is done with {0} already".format(*self._receipt))

    def _committing(self, session: Session) -> None:
        self._refuse_repetition()  # again: the handler may have caught the first one, and gone on

    def _committed(self, session: Session) -> None:
        is_root = not session.in_nested_transaction()  # a savepoint "commits" as well
        if is_root and session.get_transaction() is self._added_in:
            self.kept = True


class HandlerReceipts:
    """Which handlers are done with which records, in the inbox beside the outbox."""

    def __init__(self, inbox: Receipts, engine: AsyncEngine) -> None:
        self._inbox = inbox
        self._engine = engine

    async def done(self, record: ClaimedRecord) -> frozenset[str]:
        """Name the handlers that are done with a record."""
        statement = self._inbox.consumers(str(record.id))
        try:
            async with self._engine.connect() as connection:
                return frozenset(await connection.scalars(statement))
        except Exception as error:
            table = self._inbox.table.fullname
            raise OutageError(f"table `{table}` cannot be read: {error_text(error)}") from error

    async def add(self, record: ClaimedRecord, handler: str) -> None:
        """Note that a handler is done with a record, in a transaction of its own."""
        try:
            async with self._engine.begin() as connection:
                await connection.run_sync(self._inbox.add, str(record.id), handler)
        except Exception as error:
            # The handler is done all the same. It is repeated only if the record is.
            text = "postroom: cannot add the receipt of %s for %s"
            log.warning(text, handler, record.id, exc_info=traceable(error))

    async def take_back(self, record: ClaimedRecord, handler: str) -> None:
        """Forget that a handler is done with a record, however long it takes: else it would be."""
        statement = self._inbox.delete(str(record.id), handler)
        while True:
            try:
                async with self._engine.begin() as connection:
                    await connection.execute(statement)
                return
            except Exception:
                log.warning("postroom: cannot delete the receipt of %s for %s", handler, record.id)
                await asyncio.sleep(TAKE_BACK_PAUSE)

    def with_session(self, record: ClaimedRecord, handler: str, waiting: Waiting) -> SessionReceipt:
        """Make a receipt that goes into the handler's own transaction."""
        return SessionReceipt(self._inbox, str(record.id), handler, waiting)
