"""`outbox.save`: saves events over a connection, without the ORM.

`RecordInsertion` says what to execute and does no I/O. This module executes it.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

from sqlalchemy import Connection

from postroom.capture.capture import capture, describe_all, make_records
from postroom.capture.connection_kinds import Kind, async_kind, check_commits_later, sync_kind
from postroom.capture.insertion import RecordInsertion
from postroom.capture.outboxes import CaptureSettings
from postroom.capture.repeats import check_once
from postroom.events.event import Event
from postroom.record import OutboxRecord

NoteSaved = Callable[[Connection, Set[int]], object]
"""Takes a connection of SQLAlchemy, and the partitions of the records that were saved over it."""


class ConnectionCapture:
    """Saves events over a connection, in the transaction that the connection has under way."""

    def __init__(
        self, settings: CaptureSettings, insertion: RecordInsertion, note_saved: NoteSaved
    ) -> None:
        self._settings = settings
        self._insertion = insertion
        self._note_saved = note_saved

    async def save(self, connection: Any, events: Iterable[Event]) -> None:
        """Save events over an async connection."""
        kind = async_kind(connection)
        records = self._to_insert(connection, kind, events)
        match kind:
            case _ if not records:
                return
            case Kind.ASYNCPG:
                await connection.execute(*self._insertion.for_asyncpg(records))
            case Kind.ASYNC_PSYCOPG:
                import psycopg

                await psycopg.AsyncCursor(connection).execute(*self._insertion.for_psycopg(records))
            case _:
                await connection.run_sync(self._execute, records)

    def save_sync(self, connection: Any, events: Iterable[Event]) -> None:
        """Save events over a connection that is not async."""
        kind = sync_kind(connection)
        records = self._to_insert(connection, kind, events)
        match kind:
            case _ if not records:
                return
            case Kind.PSYCOPG:
                import psycopg

                # The application's own class of cursors may take parameters in another form.
                psycopg.Cursor(connection).execute(*self._insertion.for_psycopg(records))
            case _:
                self._execute(connection, records)

    def _to_insert(
        self, connection: Any, kind: Kind, events: Iterable[Event]
    ) -> list[OutboxRecord]:
        """Return the records to insert. Into a session they are added: none is left to insert."""
        descriptions = describe_all(events, self._settings)
        if kind is Kind.SESSION:
            capture(connection, descriptions, self._settings)
            return []
        check_once(descriptions)
        return make_records(descriptions, self._settings)

    def _execute(self, connection: Connection, records: Sequence[OutboxRecord]) -> None:
        check_commits_later(connection)
        connection.execute(*self._insertion.for_sqlalchemy(connection.dialect, records))
        self._note_saved(connection, {record.partition for record in records})
