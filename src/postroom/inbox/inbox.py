"""`Inbox`: a consumer accepts a message once, in its own transaction."""

from datetime import timedelta
from typing import Final, Self
from uuid import UUID

from sqlalchemy import MetaData, Table, insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session

from postroom.errors import InboxError
from postroom.inbox.receipts import Receipts
from postroom.inbox.table import define_inbox

MAX_LENGTH: Final = 255


class Inbox:
    """An inbox: a table of receipts on the application's MetaData, for idempotent consumers.

    The receipt of a message commits in the transaction of its effect, or not at all. So a message
    that is received again changes nothing. Keep receipts for longer than a broker may repeat a
    message.

        async with session.begin():
            if await inbox.accept(session, message.message_id, consumer="billing"):
                ...  # the effect of the message, in the same transaction

    `Outbox.inbox` is the inbox in the tables of an outbox.

    - `metadata`: the MetaData that gets the table
    - `table`, `schema`: the name of the table ("inbox"), and its schema
    """

    def __init__(
        self, metadata: MetaData, *, table: str = "inbox", schema: str | None = None
    ) -> None:
        self._receipts = Receipts(define_inbox(metadata, table, schema or metadata.schema))

    @classmethod
    def on_table(cls, table: Table) -> Self:
        """Return an inbox on a table that is defined already."""
        inbox = cls.__new__(cls)
        inbox._receipts = Receipts(table)
        return inbox

    @property
    def table(self) -> Table:
        """The table of the receipts."""
        return self._receipts.table

    async def accept(self, session: AsyncSession, message_id: UUID | str, *, consumer: str) -> bool:
        """Add the receipt of a message to the session's transaction; return False for a repeat.

        If another transaction has added the same receipt, this waits until that one commits or
        rolls back. Raises InboxError for an id or a consumer that is no text of 1 to 255
        characters.

        - `message_id`: the id that the message has each time it is received
        - `consumer`: who received it; each consumer receives a message once
        """
        return await session.run_sync(self.accept_sync, message_id, consumer=consumer)

    def accept_sync(self, session: Session, message_id: UUID | str, *, consumer: str) -> bool:
        """Add a receipt as `accept` does, with a sync Session."""
        message = _checked("a message id", _id_text(message_id))
        receiver = _checked("a consumer", _consumer_text(consumer))
        connection = session.connection(bind_arguments={"clause": insert(self.table)})
        return self._receipts.add(connection, message, receiver)

    async def clean(self, engine: AsyncEngine, *, older_than: timedelta) -> int:
        """Delete receipts that are older than an age, in batches; return how many."""
        if older_than < timedelta(0):
            raise InboxError(f"older_than is {older_than}. It is an age: 0 or more.")
        return await self._receipts.clean(engine.dialect, older_than, engine.begin)


def _id_text(message_id: object) -> str:
    if isinstance(message_id, UUID | str):
        return str(message_id)
    raise InboxError(
        f"a message id is {message_id!r}. It is a str or a UUID that no other message has. If the"
        " sender gives none, make one of what the message says, such as the order's number."
    )


def _consumer_text(consumer: object) -> str:
    if isinstance(consumer, str):
        return consumer
    raise InboxError(
        f"a consumer is {consumer!r}. It is a str that names who receives the message, and stays"
        " the same: consumer='billing'."
    )


def _checked(what: str, text: str) -> str:
    if not 1 <= len(text) <= MAX_LENGTH:
        raise InboxError(f"{what} has {len(text)} characters. It has 1 to {MAX_LENGTH}.")
    if "\0" in text or not _is_unicode(text):
        raise InboxError(f"{what} is {text!r}, which a database cannot hold. Give it plain text.")
    return text


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
