"""The outbox of an application: one object that names it, and does no I/O."""

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
from postroom.capture.dispatcher import OutboxEventDispatcher
from postroom.capture.insertion import RecordInsertion
from postroom.capture.interceptor import DomainEventOutboxInterceptor
from postroom.capture.outboxes import OUTBOXES, CaptureCallback, CaptureSettings
from postroom.capture.targets import CaptureTarget
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
    """Names the outbox: its tables on your own MetaData, and what it asks of events.

    Make any number of them. Each has a class of records of its own, `outbox.record`, to query with.

    - `ordering`: "strict" makes the order of positions the order of commits within a key. It locks
      the key until the commit; a flush with several keys takes one more statement for that.
      "relaxed" takes no lock, for writers of one key that never overlap
    - `max_retries`: what records are given; None leaves it to the relay's schedule
    - `headers`: called at each capture; what it gives (trace, correlation) goes with the record
    - `redact`: names of payload fields that commands, logs and errors never show: "email",
      "card.number", "card.*"; besides those that are always hidden, such as passwords and tokens
    - `record`: OutboxRecord or a subclass of yours, if you would rather query with that
    - `mapper_registry`: the registry to map the record in; one of its own otherwise
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
        self.record = record or _own_record(self.tables.records)
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
        self._commits = CommitSignal(self.record)
        if ordering == "strict":
            keep_commit_order(self.record, records)
        insertion = RecordInsertion(records, lock_keys=ordering == "strict")
        self._connections = ConnectionCapture(self.settings, insertion, self._commits.note_saved)

    def capture(self, sessions: CaptureTarget) -> None:
        """Capture the events of every aggregate that these sessions save. Once, at start-up."""
        DomainEventOutboxInterceptor(outbox=self).install(sessions)

    def dispatcher(self, session: Session | AsyncSession) -> OutboxEventDispatcher:
        """Make a dispatcher that saves into this outbox."""
        return OutboxEventDispatcher(session, outbox=self)

    def middleware(self) -> OutboxMiddleware:
        """Make a middleware that saves into this outbox."""
        return OutboxMiddleware(outbox=self)

    @property
    def inbox(self) -> Inbox:
        """The inbox of this outbox: its handlers' receipts, and those of your own consumers."""
        return Inbox.on_table(self.tables.inbox)

    async def save(self, connection: object, events: Iterable[Event]) -> None:
        """Save events without the ORM, over a connection and in its transaction.

        Takes an AsyncConnection of SQLAlchemy, and the own connections of asyncpg and psycopg. Into
        an AsyncSession the records are added, as a dispatcher does it.
        """
        await self._connections.save(connection, events)

    def save_sync(self, connection: object, events: Iterable[Event]) -> None:
        """Do the same over a Connection of SQLAlchemy or psycopg that is not async."""
        self._connections.save_sync(connection, events)

    def on_capture(self, callback: CaptureCallback) -> None:
        """Call this with each record before it is saved. Once, at start-up.

        It may add to `record.headers` what JSON can hold. What it raises ends the capture.
        """
        self.settings.callbacks.append(callback)

    def on_commit(self, callback: Callback) -> Callable[[], None]:
        """Call this whenever this process has committed records; return what ends it.

        It is called in the thread that committed, with the partitions of the records. It is not
        called for a driver's own connections (see `wake_relays`), for rows that were inserted by
        hand, nor for a transaction that a session only joined.
        """
        return self._commits.subscribe(callback)

    def wake_relays(self) -> None:
        """Have relays look for new records now, as after a commit that SQLAlchemy has seen.

        Call it after the commit of a driver's own connection. Otherwise they see the records at
        their next poll.
        """
        self._commits.wake(frozenset(range(PARTITIONS)))

    def notify_workers(self, engine: Engine | AsyncEngine, *, channel: str = CHANNEL) -> Notifier:
        """Wake workers in other processes after each commit of this one. Once, at start-up.

        PostgreSQL only; elsewhere they see what is committed when they poll. Close what is returned
        at the end, and the last notification is sent too.
        """
        notifier = Notifier(engine, channel, self.tables.records.fullname)
        if engine.dialect.name == "postgresql":
            notifier.on_close(self.on_commit(notifier))
        return notifier

    def create_tables(self, connection: Connection) -> None:
        """Create the tables and their schema, or what they lack of this version's.

        For tests and small programs; an application with migrations does it there.
        """
        upgrade_schema(connection, self.tables)

    def check(self, connection: Connection) -> None:
        """Raise SchemaError, naming every drift, unless the database has the tables as they are."""
        check_schema(connection, self.tables)


def map_outbox_table(mapper_registry: registry, *, table: str = TABLE, **options: Any) -> Outbox:
    """Map OutboxRecord in the application's own registry, with the options of `Outbox`.

    A second call for the same registry and table gives the outbox that is there. OutboxRecord can
    be mapped once in a process, until `clear_mappers()`: further outboxes are made with `Outbox`.
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
