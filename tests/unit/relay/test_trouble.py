"""What an error of the store means."""

import sqlite3

import asyncpg.exceptions
import psycopg
import pytest
from sqlalchemy import exc

from postroom.errors import SchemaError
from postroom.relay.trouble import database_outage


def wrapped(kind: type[exc.DBAPIError], *, invalidated: bool = False) -> exc.DBAPIError:
    driver = Exception("server closed the connection unexpectedly\nDETAIL: it was busy")
    return kind(
        "SELECT secret", {"password": "hunter2"}, driver, connection_invalidated=invalidated
    )


PASSING = [
    wrapped(exc.OperationalError),
    wrapped(exc.InterfaceError),
    wrapped(exc.InternalError),
    wrapped(exc.DBAPIError),
    wrapped(exc.ProgrammingError, invalidated=True),
    exc.TimeoutError("QueuePool limit reached"),
    asyncpg.exceptions.CannotConnectNowError("the database system is starting up"),
    asyncpg.exceptions.TooManyConnectionsError("sorry, too many clients already"),
    psycopg.OperationalError("connection refused"),
    sqlite3.OperationalError("database is locked"),
    ConnectionRefusedError(111, "Connect call failed"),
    OSError("Name or service not known"),
    TimeoutError(),
]
LASTING = [
    wrapped(exc.ProgrammingError),
    wrapped(exc.DataError),
    wrapped(exc.IntegrityError),
    SchemaError(["no table `outbox`"]),
    ValueError("a bug"),
    KeyError("a bug"),
    AssertionError(),
    exc.InvalidRequestError("a bug"),
]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_what_passes_by_itself_is_an_outage(error: Exception) -> None:
    assert database_outage(error)


@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
def test_what_waiting_cannot_mend_is_none(error: Exception) -> None:
    assert not database_outage(error)
