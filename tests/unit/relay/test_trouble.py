"""What an error of the store means."""

import sqlite3

import asyncpg.exceptions
import psycopg
import pytest
from sqlalchemy import exc

from postroom.errors import SchemaError
from postroom.relay.trouble import database_outage


class DriverError(Exception):
    """Of a driver of PostgreSQL."""

    sqlstate: str | None = None


def wrapped(
    kind: type[exc.DBAPIError], *, invalidated: bool = False, state: str | None = None
) -> exc.DBAPIError:
    driver = DriverError("server closed the connection unexpectedly\nDETAIL: it was busy")
    driver.sqlstate = state
    return kind(
        "SELECT secret", {"password": "hunter2"}, driver, connection_invalidated=invalidated
    )


PASSING = [
    wrapped(exc.OperationalError),
    wrapped(exc.InterfaceError),
    wrapped(exc.InternalError),
    wrapped(exc.DBAPIError),
    wrapped(exc.DBAPIError, state="57P01"),  # the server is being stopped
    wrapped(exc.DBAPIError, state="P0001", invalidated=True),
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
    wrapped(exc.DBAPIError, state="P0001"),  # a trigger raises
    wrapped(exc.DBAPIError, state="22012"),  # a division by zero
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
