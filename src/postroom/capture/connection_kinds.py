"""Which kind of connection it is, and whether it is in a transaction.

A driver's own connection is known by the name of its class: no driver is imported.
"""

from enum import Enum, auto
from typing import Any, Final

from sqlalchemy import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from postroom.errors import CaptureError


class Kind(Enum):
    """A kind of connection: of which library, sync or async."""

    SESSION = auto()
    CORE = auto()
    ASYNC_CORE = auto()
    ASYNCPG = auto()
    PSYCOPG = auto()
    ASYNC_PSYCOPG = auto()


AUTOCOMMIT: Final = "AUTOCOMMIT"
_DRIVERS: Final = {
    ("asyncpg", "Connection"): Kind.ASYNCPG,
    ("asyncpg", "PoolConnectionProxy"): Kind.ASYNCPG,
    ("psycopg", "Connection"): Kind.PSYCOPG,
    ("psycopg", "AsyncConnection"): Kind.ASYNC_PSYCOPG,
}


def async_kind(connection: object) -> Kind:
    """Give the kind of an async connection; refuse any other, and one without a transaction."""
    kind = _kind(connection)
    if kind in (Kind.CORE, Kind.PSYCOPG):
        raise CaptureError(
            f"cannot save events over {_named(connection)}, which is not async, with"
            " `await outbox.save(…)`. Use `outbox.save_sync(connection, events)`."
        )
    return kind


def sync_kind(connection: object) -> Kind:
    """Give the kind of a sync connection; refuse any other, and one without a transaction."""
    kind = _kind(connection)
    if kind in (Kind.ASYNC_CORE, Kind.ASYNCPG, Kind.ASYNC_PSYCOPG):
        raise CaptureError(
            f"cannot save events over {_named(connection)}, which is async, with"
            " `outbox.save_sync(…)`. Use `await outbox.save(connection, events)`."
        )
    return kind


def chosen_isolation(bind: Engine | Connection) -> str | None:
    """Give the isolation level that a connection or its engine was told to have."""
    chosen: str | None = bind.get_execution_options().get("isolation_level")
    # A private name, and the only place where create_engine(isolation_level=…) is kept.
    return chosen or getattr(bind.dialect, "_on_connect_isolation_level", None)


def is_autocommit(connection: Connection) -> bool:
    """Tell whether a connection of SQLAlchemy commits each statement by itself."""
    driver = connection.connection.dbapi_connection  # PostgreSQL's have an attribute for it
    return chosen_isolation(connection) == AUTOCOMMIT or getattr(driver, "autocommit", None) is True


def check_commits_later(connection: Connection) -> None:
    """Refuse a connection of SQLAlchemy that commits each statement by itself."""
    if is_autocommit(connection):
        raise CaptureError(
            "cannot save events over a connection with isolation level AUTOCOMMIT: they would be"
            " committed without your data. Use a connection with another isolation level."
        )


def _kind(connection: Any) -> Kind:
    match connection:
        case Session() | AsyncSession() | scoped_session() | async_scoped_session():
            return Kind.SESSION
        case Connection():
            return Kind.CORE
        case AsyncConnection():
            return Kind.ASYNC_CORE
    for each in type(connection).__mro__:
        kind = _DRIVERS.get((each.__module__.partition(".")[0], each.__name__))
        if kind is not None:
            _check_transaction(connection, kind)
            return kind
    raise CaptureError(
        f"cannot save events over {_named(connection)}. Give a connection or session of SQLAlchemy,"
        " or a connection of asyncpg or psycopg 3."
    )


def _check_transaction(connection: Any, kind: Kind) -> None:
    if kind is Kind.ASYNCPG:
        alone = not connection.is_in_transaction()
    else:  # psycopg begins a transaction with the first statement, except in autocommit
        alone = connection.autocommit and connection.info.transaction_status.name == "IDLE"
    if alone:
        block = "with" if kind is Kind.PSYCOPG else "async with"
        raise CaptureError(
            f"cannot save events over {_named(connection)} that is not in a transaction: they would"
            f" be committed without your data. Save both in `{block} connection.transaction():`."
        )


def _named(connection: object) -> str:
    kind = type(connection)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}".removeprefix("builtins.")
