"""`Outbox`: names the tables and holds the settings of capture. It does no I/O."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Engine, MetaData, Table, inspect
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Mapper, Session, registry

from postroom.capture.bus import OutboxMiddleware
from postroom.capture.commit_order import insert_last, keep_commit_order
from postroom.capture.connections import ConnectionCapture
from postroom.capture.databases import check_inserts
from postroom.capture.dispatcher import OutboxEventDispatcher
from postroom.capture.insertion import RecordInsertion
from postroom.capture.interceptor import DomainEventOutboxInterceptor
from postroom.capture.outboxes import OUTBOXES, CaptureCallback, CaptureSettings
from postroom.capture.targets import CaptureTarget, Uncaptured
from postroom.errors import ConfigurationError
from postroom.events.event import Event
from postroom.events.registry import EventRegistry, default_registry
from postroom.inbox.inbox import Inbox
from postroom.record import MAX_RETRIES, PARTITIONS, OutboxRecord
from postroom.redaction import is_pattern
from postroom.tables.check import check_schema, upgrade_schema
from postroom.tables.tables import TABLE, define_tables
from postroom.wakeup.commits import Callback, CommitSignal
from postroom.wakeup.notifier import CHANNEL, Notifier

Ordering = Literal["strict", "relaxed"]


class Outbox:
    """An outbox: its tables on the application's MetaData, and how events are saved there.

    Making one does no I/O. An application can have several; each has its own class of records,
    `outbox.record`, for queries. Raises ConfigurationError for a wrong setting.

    - `metadata`: the MetaData that gets the tables
    - `table`: the name of the table of records ("outbox"); the other tables begin with it
    - `schema`: the schema of the tables; that of `metadata` by default
    - `ordering`: "strict" gives the records of a key positions in the order of their commits. It
      locks the key until the commit; a flush with several keys takes one more statement for that.
      "relaxed" takes no lock: for keys with one writer at a time
    - `max_retries`: the record fails on the Nth refusal (10); None leaves that to the relay's
      schedule
    - `max_payload_bytes`, `max_header_bytes`: a larger event raises CaptureError (1 MiB, 64 KiB)
    - `headers`: a function that is called at each capture; what it returns is added to the headers
    - `redact`: payload fields that commands, logs and errors never show, such as "email",
      "card.number" or "card.*". Passwords, tokens and the like are always hidden
    - `events`: the registry of event classes and handlers; the default one if not given
    - `record`: OutboxRecord or your subclass, to be mapped in place of a new class
    - `mapper_registry`: the registry that maps the record; a new one by default
    """

    def __init__(
        self,
        metadata: MetaData,
        *,
        table: str = TABLE,
        schema: str | None = None,
        ordering: Ordering = "strict",
        max_retries: int | None = MAX_RETRIES,
        max_payload_bytes: int = 1024 * 1024,
        max_header_bytes: int = 64 * 1024,
        headers: Callable[[], Mapping[str, Any]] = dict,
        redact: Sequence[str] = (),
        events: EventRegistry = default_registry,
        record: type[OutboxRecord] | None = None,
        mapper_registry: registry | None = None,
    ) -> None:
        if ordering not in get_args(Ordering):
            raise ConfigurationError(f"ordering is {ordering!r}. It is 'strict' or 'relaxed'.")
        _check_headers(headers)
        _check_redact(redact)
        if record is not None:
            _check_unmapped(record)
        self.metadata = metadata
        self.redact = tuple(redact)
        self.tables = define_tables(metadata, table=table, schema=schema or metadata.schema)
        """The tables on `metadata`; `outbox.tables.records` has the records."""
        self.record = record or _own_record(self.tables.records)
        """The mapped class of records, for queries: a subclass of `OutboxRecord`, or itself."""
        self.settings = CaptureSettings(
            record=self.record,
            max_retries=max_retries,
            max_payload_bytes=max_payload_bytes,
            max_header_bytes=max_header_bytes,
            headers=headers,
            registry=events,
        )
        records = self.tables.records
        metadata.info.setdefault(OUTBOXES, {})[records] = self
        mapping = mapper_registry or registry(metadata=metadata)
        # The id is the identity; positions are the database's business.
        mapper = mapping.map_imperatively(
            self.record, records, primary_key=[records.c.id], eager_defaults=False
        )
        insert_last(mapper)
        check_inserts(self.record)
        self._commits = CommitSignal(self.record)
        if ordering == "strict":
            keep_commit_order(self.record, records)
        insertion = RecordInsertion(records, lock_keys=ordering == "strict")
        self._connections = ConnectionCapture(self.settings, insertion, self._commits.note_saved)

    def capture(self, sessions: CaptureTarget, *, uncaptured: Uncaptured = "warn") -> None:
        """Capture the events of all aggregates that these sessions save. Call it once, at start-up.

        - `sessions`: a sessionmaker, an async_sessionmaker, a scoped session of either, or a class
          of sessions
        - `uncaptured`: what the commit of another session does that saves aggregates with events:
          "warn" (`CaptureWarning`), or "error" (it raises CaptureError)
        """
        DomainEventOutboxInterceptor(outbox=self, uncaptured=uncaptured).install(sessions)

    def dispatcher(self, session: Session | AsyncSession) -> OutboxEventDispatcher:
        """Return a dispatcher that saves events of this session in this outbox."""
        return OutboxEventDispatcher(session, outbox=self)

    def middleware(self) -> OutboxMiddleware:
        """Return a middleware that saves the events of a bus in this outbox."""
        return OutboxMiddleware(outbox=self)

    @property
    def inbox(self) -> Inbox:
        """The inbox of this outbox, with the receipts of its handlers. Consumers may use it too."""
        return Inbox.on_table(self.tables.inbox)

    async def save(self, connection: object, events: Iterable[Event]) -> None:
        """Save events without the ORM, over a connection and in its transaction.

        `connection` is an AsyncConnection of SQLAlchemy, or a connection of asyncpg or psycopg. An
        AsyncSession works too: records are added to it, as by a dispatcher. Raises CaptureError.
        """
        await self._connections.save(connection, events)

    def save_sync(self, connection: object, events: Iterable[Event]) -> None:
        """Save events as `save` does, over a sync connection of SQLAlchemy or psycopg."""
        self._connections.save_sync(connection, events)

    def on_capture(self, callback: CaptureCallback) -> None:
        """Call a function with each record before it is saved. Register it once, at start-up.

        The function may add JSON values to `record.headers`; other values, or too many, raise
        CaptureError. An error that the function raises ends the capture.
        """
        self.settings.callbacks.append(callback)

    def on_commit(self, callback: Callback) -> Callable[[], None]:
        """Call a function after each commit of records in this process.

        Returns a function that ends that. The callback runs in the thread that committed, and gets
        the partitions of the records. It is not called for commits of a driver's own connection
        (see `wake_relays`), for rows that were inserted by hand, or for a transaction that a
        session has only joined.
        """
        return self._commits.subscribe(callback)

    def wake_relays(self) -> None:
        """Make relays look for new records now.

        Call it after a commit on a driver's own connection, which postroom does not see. Without
        the call, relays find the records at their next poll.
        """
        self._commits.wake(frozenset(range(PARTITIONS)))

    def notify_workers(self, engine: Engine | AsyncEngine, *, channel: str = CHANNEL) -> Notifier:
        """Wake workers in other processes after each commit of records here, by NOTIFY.

        Call it once, at start-up. Close the returned notifier at the end: it then sends the last
        notification. On SQLite nothing is sent; workers find the records at their next poll.
        """
        notifier = Notifier(engine, channel, self.tables.records.fullname)
        if engine.dialect.name == "postgresql":
            notifier.on_close(self.on_commit(notifier))
        return notifier

    def create_tables(self, connection: Connection) -> None:
        """Create the tables and their schema, or add the columns and indexes that they lack.

        For tests and small programs. An application with migrations uses those.
        """
        upgrade_schema(connection, self.tables)

    def check(self, connection: Connection) -> None:
        """Raise SchemaError, which lists every difference, if the tables are not those needed."""
        check_schema(connection, self.tables)


def map_outbox_table(mapper_registry: registry, *, table: str = TABLE, **options: Any) -> Outbox:
    """Map OutboxRecord itself in the application's registry, and return the outbox.

    Takes the options of `Outbox`. A second call for the same registry and table returns the same
    outbox. OutboxRecord can be mapped once in a process (until `clear_mappers()`); make further
    outboxes with `Outbox`.
    """
    metadata = mapper_registry.metadata
    schema = options.get("schema") or metadata.schema
    outboxes: dict[Table | None, Outbox] = metadata.info.get(OUTBOXES, {})
    outbox = outboxes.get(metadata.tables.get(f"{schema}.{table}" if schema else table))
    if outbox is not None and inspect(outbox.record, raiseerr=False) is not None:
        return outbox
    if outbox is not None:  # the mappers were cleared
        del outboxes[outbox.tables.records]
        for each in outbox.tables:
            metadata.remove(each)
    options.setdefault("record", OutboxRecord)
    return Outbox(metadata, table=table, mapper_registry=mapper_registry, **options)


def _own_record(table: Table) -> type[OutboxRecord]:
    """Make a class of records for one outbox: `OutboxRecord` for `outbox`, and so on."""
    name = "".join(word.capitalize() for word in re.split(r"[\W_]+", table.fullname))
    return type(f"{name}Record", (OutboxRecord,), {"__doc__": f"A record of `{table.fullname}`."})


def _check_headers(headers: object) -> None:
    if not callable(headers) or iscoroutinefunction(headers):
        raise ConfigurationError(
            f"headers is a {type(headers).__name__}, or async. Give a plain function that returns"
            " a mapping."
        )


def _check_redact(patterns: object) -> None:
    if isinstance(patterns, str) or not isinstance(patterns, Sequence):
        raise ConfigurationError(
            f"redact is a {type(patterns).__name__}. Give a sequence of names: redact=('email',)."
        )
    for each in patterns:
        if not is_pattern(each):
            raise ConfigurationError(
                f"redact names the field {each!r}. Write a name, or a path such as 'card.number';"
                " * stands for any name. Lists are looked into without [ ]."
            )


def _check_unmapped(record: type[OutboxRecord]) -> None:
    mapper: Mapper[Any] | None = inspect(record, raiseerr=False)
    if mapper is not None:
        raise ConfigurationError(
            f"{record.__name__} is mapped to table `{mapper.local_table}` already. Make a second"
            " outbox with Outbox(metadata): it has a class of records of its own, `outbox.record`."
        )
