"""Which database of a session a record goes to: that of its aggregate, in one transaction with it.

Most sessions have one database. One with several asks which connection an object needs, as it
flushes. One that chooses by what it is doing (its own `get_bind`) is asked in the flush only.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, event, inspect
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.orm import Mapper, Session, object_session
from sqlalchemy.orm.attributes import instance_state

from postroom.capture.connection_kinds import AUTOCOMMIT, chosen_isolation, is_autocommit
from postroom.capture.tracker import Captured, tracker_of
from postroom.errors import CaptureError
from postroom.events.aggregate import AggregateRoot
from postroom.record import OutboxRecord

# The tables, by schema and name, that the databases of engines are known to have.
_known: WeakKeyDictionary[Engine, set[tuple[str | None, str]]] = WeakKeyDictionary()


def check_database(session: Session, event_type: str, classes: Iterable[type]) -> None:
    """Refuse a session on AUTOCOMMIT, and one that has no database for records.

    `classes` are those of the aggregates, or else that of the records.
    """
    if _chooses_itself(session):
        return
    if not _binds(session):
        binds = {session.bind}
    else:
        binds = {_bind_of(session, each, event_type) for each in classes}
    for bind in binds:
        if bind is not None and _commits_each_statement(session, bind):
            raise _autocommit(event_type, bind)


def check_inserts(record_class: type[OutboxRecord]) -> None:
    """Refuse to insert a record that a rollback would leave behind, or away from its aggregate.

    Only the connection shows some of that.
    """

    @event.listens_for(record_class, "before_insert")
    def check(_: Mapper[OutboxRecord], connection: Connection, record: OutboxRecord) -> None:
        if is_autocommit(connection):
            raise _autocommit(record.event_type, connection)
        session = object_session(record)
        if session is None or session.connection_callable in (None, connection_for):
            return
        aggregate = tracker_of(session).aggregates.get(record)
        if aggregate is not None:  # the session is sharded
            choose: Any = session.connection_callable
            theirs = choose(mapper=_mapper(aggregate), instance=aggregate)
            if theirs is not connection:
                raise _apart(record, aggregate, theirs.engine, connection.engine)


def note_aggregates(session: Session, captured: Iterable[Captured]) -> None:
    """Note whose database each record belongs in, if the session has several."""
    if _chooses_itself(session) or _binds(session):
        pairs = ((record, raised.aggregate) for raised, record in captured)
        tracker_of(session).aggregates.update(pairs)


def follow_aggregates(session: Session) -> None:
    """Insert records over the connections of their aggregates, until the flush ends."""
    if session.connection_callable is None and tracker_of(session).aggregates:
        session.connection_callable = connection_for


def stop_following(session: Session) -> None:
    """Choose connections as ever. (Bulk statements refuse a session that has its own choice.)"""
    if session.connection_callable is connection_for:
        session.connection_callable = None


def connection_for(mapper: Mapper[Any] | None = None, instance: Any = None, **_: Any) -> Connection:
    """Give the connection to flush an object over; that of its aggregate for a record."""
    session = object_session(instance)
    assert session is not None, "it is being flushed"  # noqa: S101
    aggregate = None
    if isinstance(instance, OutboxRecord):
        aggregate = tracker_of(session).aggregates.get(instance)
    if aggregate is None:
        return session.connection(bind_arguments={"mapper": mapper})
    connection = session.connection(bind_arguments={"mapper": _mapper(aggregate)})
    usual = _bind_of(session, type(instance))
    ours = usual.engine if usual is not None else None
    if ours is not connection.engine and not _has(connection, inspect(type(instance))):
        raise _without_outbox(instance, aggregate, connection.engine, ours)
    return connection


def _mapper(aggregate: AggregateRoot) -> Mapper[Any]:
    return instance_state(aggregate).mapper


def _chooses_itself(session: Session) -> bool:
    return type(session).get_bind is not Session.get_bind


def _binds(session: Session) -> Mapping[Any, Any] | None:
    """Give what `Session(binds=…)` was given. It is public from SQLAlchemy 2.1 on."""
    values = vars(session)
    return values.get("binds") or values.get("_Session__binds")


def _bind_of(
    session: Session, mapped: type, event_type: str | None = None
) -> Engine | Connection | None:
    try:
        return session.get_bind(inspect(mapped))
    except UnboundExecutionError as error:
        if event_type is None or not issubclass(mapped, OutboxRecord):
            return None  # an aggregate's is SQLAlchemy's to refuse
        raise CaptureError(
            f"cannot capture {event_type}: the session has databases for some classes (binds=…),"
            f" and none for the records of `{inspect(mapped).local_table}`. Bind them too:"
            " binds={…, outbox.record: engine}."
        ) from error


def _commits_each_statement(session: Session, bind: Engine | Connection) -> bool:
    """Tell whether what the session does there is in no transaction; connects to nothing."""
    # A private name. Without it, the insert finds out.
    begun = getattr(session.get_transaction(), "_connections", {}).get(bind)
    if begun is not None:
        return chosen_isolation(begun[0]) == AUTOCOMMIT
    options = getattr(session, "execution_options", {})  # SQLAlchemy 2.1
    return options.get("isolation_level", chosen_isolation(bind)) == AUTOCOMMIT


def _has(connection: Connection, mapper: Mapper[Any]) -> bool:
    """Tell whether a database has the table of a class; each engine is asked until it has."""
    table: Any = mapper.local_table
    schema = connection.schema_for_object(table)
    known = _known.setdefault(connection.engine, set())
    if (schema, table.name) not in known and inspect(connection).has_table(table.name, schema):
        known.add((schema, table.name))
    return (schema, table.name) in known


def _autocommit(event_type: str, bind: Engine | Connection) -> CaptureError:
    level = "READ COMMITTED" if bind.dialect.name == "postgresql" else "SERIALIZABLE"
    return CaptureError(
        f"cannot capture {event_type}: the session has isolation level AUTOCOMMIT, so that a"
        " rollback would leave the record, or its data, behind. Give the session an engine with"
        f" another level: engine.execution_options(isolation_level={level!r})."
    )


def _without_outbox(
    record: OutboxRecord, aggregate: AggregateRoot, theirs: Engine, ours: Engine | None
) -> CaptureError:
    name, table = type(aggregate).__name__, inspect(type(record)).local_table
    usual = f" (records go to {_address(ours)})" if ours is not None else ""
    return CaptureError(
        f"cannot capture {record.event_type}: {name} is saved in {_address(theirs)}, which has no"
        f" table `{table}`{usual}. One transaction has to save both. Create the tables of the"
        f" outbox there too, by a migration or outbox.create_tables, and run a relay there; or bind"
        f" {name} to the database that has them."
    )


def _apart(
    record: OutboxRecord, aggregate: AggregateRoot, theirs: Engine, ours: Engine
) -> CaptureError:
    name = type(aggregate).__name__
    return CaptureError(
        f"cannot capture {record.event_type}: {name} is saved in {_address(theirs)}, and its record"
        f" would go to {_address(ours)}. One transaction has to save both. Have the shard_chooser"
        f" of the session give the record the shard of {name} {record.aggregate_id}."
    )


def _address(engine: Engine) -> str:
    return engine.url.set(query={}).render_as_string()
