"""The inbox: what a consumer has received, noted in the transaction that acts on it."""

from datetime import timedelta
from typing import Final, Self
from uuid import UUID

from sqlalchemy import MetaData, Table, insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session

from postroom.errors import InboxError
from postroom.outbox import Outbox
from postroom.tables.inbox import InboxNotes, define_inbox

MAX_LENGTH: Final = 255


class Inbox:
    """Names an inbox: a table on your own MetaData, for consumers with a database of their own.

        async with session.begin():
            if await inbox.first(session, message.message_id, consumer="billing"):
                ...  # what to do about the message, in this very transaction

    Its effect and the note of it commit together or not at all, so a message that comes again
    changes nothing. Keep notes for longer than a broker may repeat a message.
    """

    def __init__(
        self, metadata: MetaData, *, table: str = "inbox", schema: str | None = None
    ) -> None:
        self._inbox = InboxNotes(define_inbox(metadata, table, schema or metadata.schema))

    @classmethod
    def of(cls, outbox: Outbox) -> Self:
        """Give the inbox that an outbox has beside it, where handlers are noted as well."""
        inbox = cls.__new__(cls)
        inbox._inbox = InboxNotes(outbox.tables.inbox)
        return inbox

    @property
    def table(self) -> Table:
        """The table of the notes."""
        return self._inbox.table

    async def first(self, session: AsyncSession, message_id: UUID | str, *, consumer: str) -> bool:
        """Note a message in the session's transaction; tell whether it is the consumer's first.

        While another transaction is at the same message, it waits for how that ends.
        """
        return await session.run_sync(self.first_now, message_id, consumer=consumer)

    def first_now(self, session: Session, message_id: UUID | str, *, consumer: str) -> bool:
        """Do the same from code that is not async."""
        message = _checked("a message id", str(message_id))
        receiver = _checked("a consumer", consumer)
        connection = session.connection(bind_arguments={"clause": insert(self.table)})
        return self._inbox.add(connection, message, receiver)

    async def clean(self, engine: AsyncEngine, *, older_than: timedelta) -> int:
        """Forget what was received longer ago than this, in batches; tell how many notes."""
        if older_than < timedelta(0):
            raise InboxError(f"older_than is {older_than}. It is an age: 0 or more.")
        return await self._inbox.clean(engine.dialect, older_than, engine.begin)


def _checked(what: str, text: str) -> str:
    if not 1 <= len(text) <= MAX_LENGTH:
        raise InboxError(f"{what} has {len(text)} characters. It has 1 to {MAX_LENGTH}.")
    if "\0" in text or not _is_unicode(text):
        raise InboxError(f"{what} is {text!r}, which a database cannot hold. Give it plain text.")
    return text


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
