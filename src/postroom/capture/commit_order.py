"""Numbers the records of a key in the order of their commits, by a lock.

Without it, two transactions on one aggregate can be numbered one way and commit the other. The
locks are PostgreSQL's advisory ones, for the transaction, and striped: one lock per key would run
out of shared memory in a transaction with very many keys. SQLite has one writer at a time anyway.

A flush with events of one key, the usual case, takes its lock within the INSERT itself. One with
several takes all of theirs beforehand, in one statement. Without the ORM, one INSERT locks all keys
of its records first (`LockedPositions`).
"""

import sys
from collections.abc import Iterable
from typing import Any, Final, cast
from weakref import WeakKeyDictionary
from zlib import crc32

import sqlalchemy
from sqlalchemy import (
    ARRAY,
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    Dialect,
    Insert,
    Integer,
    Table,
    Transaction,
    bindparam,
    event,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Mapper, object_session
from sqlalchemy.orm.attributes import instance_state
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from postroom.errors import ConfigurationError
from postroom.record import OutboxRecord, key_hash

STRIPES: Final = 1024

# Sorted by who calls it, so that two transactions with the same keys never wait in a circle.
_LOCK_STRIPES = text(
    "SELECT pg_advisory_xact_lock(:outbox, stripe) FROM unnest(:stripes) AS stripe"
).bindparams(bindparam("outbox", type_=Integer), bindparam("stripes", type_=ARRAY(Integer)))


class Position(TypeDecorator[int]):
    """A record's number. An INSERT may give `~stripe` for it: lock that, then take the next."""

    impl = BigInteger
    cache_ok = True
    __module__ = "sqlalchemy.types"  # for migrations, as UtcDateTime explains

    def __repr__(self) -> str:
        return "BigInteger().with_variant(sa.Integer(), 'sqlite')"

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """On SQLite, INTEGER is what makes a primary key number itself."""
        return dialect.type_descriptor(Integer() if dialect.name == "sqlite" else BigInteger())

    def bind_expression(self, bindvalue: BindParameter[int]) -> ColumnElement[int]:
        """Wrap what an INSERT gives."""
        return LockedPosition(bindvalue)

    def coerce_compared_value(self, op: Any, value: Any) -> TypeEngine[Any]:
        """Leave alone what a query compares a position with."""
        return BigInteger()


class LockedPosition(FunctionElement[int]):
    """The position that an INSERT gives; for `~stripe` the next one, once the stripe is locked."""

    inherit_cache = True


@compiles(LockedPosition)
def _as_given(element: LockedPosition, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses, **options)


@compiles(LockedPosition, "postgresql")
def _locked(element: LockedPosition, compiler: SQLCompiler, **options: Any) -> str:
    if not isinstance(compiler.statement, Insert):
        return _as_given(element, compiler, **options)
    given = compiler.process(element.clauses, **options)
    lock = _lock(f"CAST(~{given} AS integer)", compiler)
    # CASE asks in order: the lock is held (and never NULL) before the number is taken.
    return (
        f"CASE WHEN {given} >= 0 THEN {given} WHEN {lock} IS NULL THEN NULL"
        f" ELSE {_next_position(compiler)} END"
    )


class LockedPositions(FunctionElement[int]):
    """The next position for each row of an INSERT, once all stripes of an array are locked.

    PostgreSQL only. The array is sorted, as that of `_LOCK_STRIPES` is.
    """

    inherit_cache = True


@compiles(LockedPositions, "postgresql")
def _all_locked(element: LockedPositions, compiler: SQLCompiler, **options: Any) -> str:
    stripes = compiler.process(element.clauses, **options)
    # The subquery refers to no row: it runs once, before the first number is taken.
    lock = f"SELECT count({_lock('stripe', compiler)})"
    # The cast is for psycopg2: it writes an array that is empty without a type.
    locked = f"({lock} FROM unnest(CAST({stripes} AS integer[])) AS stripe)"
    return f"CASE WHEN {locked} >= 0 THEN {_next_position(compiler)} END"


def insert_last(mapper: Mapper[Any]) -> None:
    """Have a flush write the records after everything else.

    It goes by the names of modules otherwise. A key that is locked before its aggregate's row, in
    an application that locks the row first elsewhere, is a deadlock.
    """
    if not hasattr(mapper, "_sort_key"):
        raise untested_version()
    mapper.__dict__["_sort_key"] = chr(sys.maxunicode)


def untested_version() -> ConfigurationError:
    """Give the error for a SQLAlchemy that lacks what postroom needs beyond its documentation."""
    return ConfigurationError(
        f"postroom does not work with SQLAlchemy {sqlalchemy.__version__}. Install a version"
        " that it was tested with: pip install 'SQLAlchemy>=2.0.31,<2.2'."
    )


def keep_commit_order(record_class: type[OutboxRecord], table: Table) -> None:
    """Lock the keys of new records just before they are numbered."""
    held: WeakKeyDictionary[Transaction, set[int]] = WeakKeyDictionary()

    @event.listens_for(record_class, "before_insert")
    def lock_keys(_: Mapper[OutboxRecord], connection: Connection, record: OutboxRecord) -> None:
        session = object_session(record)
        if session is None or connection.dialect.name != "postgresql":
            return
        stripe = _stripe(record)
        if stripe is None:
            return
        # A savepoint that is rolled back gives its locks back: each transaction counts its own.
        locked = held.setdefault(_transaction(connection), set())
        if stripe in locked:
            return
        new = (each for each in session.new if isinstance(each, record_class))
        wanted = stripes_of(new) - locked
        if len(wanted) == 1:
            # Its own INSERT takes the lock. (To set the attribute would load what it was before.)
            instance_state(record).dict["position"] = ~stripe
        else:
            parameters = {"outbox": _lock_space(table), "stripes": sorted(wanted)}
            connection.execute(_LOCK_STRIPES, parameters)
        locked |= wanted

    @event.listens_for(record_class, "after_insert")
    def forget_stripe(_: Mapper[OutboxRecord], __: Connection, record: OutboxRecord) -> None:
        state = instance_state(record)
        if (state.dict.get("position") or 0) < 0:
            del state.dict["position"]
            state.expired_attributes.add("position")  # read from the database when asked for


def stripes_of(records: Iterable[OutboxRecord]) -> set[int]:
    """Give the stripes that have to be locked before these records are numbered."""
    stripes = map(_stripe, records)
    return {stripe for stripe in stripes if stripe is not None}


def _stripe(record: OutboxRecord) -> int | None:
    if record.aggregate_id is None:
        return None
    return key_hash(record.aggregate_type, record.aggregate_id) % STRIPES


def _lock(stripe: str, compiler: SQLCompiler) -> str:
    return f"pg_advisory_xact_lock({_lock_space(_target(compiler))}, {stripe})"


def _lock_space(table: Table) -> int:
    return crc32(table.fullname.encode()) - 2**31  # a signed integer, as PostgreSQL's are


def _next_position(compiler: SQLCompiler) -> str:
    name = compiler.preparer.format_table(_target(compiler)).replace("'", "''")
    return f"nextval(pg_get_serial_sequence('{name}', 'position'))"


def _target(compiler: SQLCompiler) -> Table:
    return cast(Table, cast(Insert, compiler.statement).table)


def _transaction(connection: Connection) -> Transaction:
    transaction = connection.get_nested_transaction() or connection.get_transaction()
    assert transaction is not None, "a flush runs in a transaction"  # noqa: S101
    return transaction
