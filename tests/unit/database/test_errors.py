"""What an error of the database means."""

import sqlite3

import asyncpg.exceptions
import psycopg
import pytest
from sqlalchemy import exc

from postroom.database.errors import CONFLICTS, STATES, database_outage, describe, is_conflict
from postroom.errors import SchemaError


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
    wrapped(exc.DBAPIError, state="55P03"),  # a lock
    wrapped(exc.DBAPIError, state="40P01"),  # a deadlock
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
def test_what_waiting_cannot_cure_is_no_outage(error: Exception) -> None:
    assert not database_outage(error)


@pytest.mark.parametrize("state", CONFLICTS)
def test_a_lock_or_a_deadlock_is_a_conflict_and_passes_by_itself(state: str) -> None:
    error = wrapped(exc.DBAPIError, state=state)
    assert is_conflict(error)
    assert database_outage(error)


def test_a_conflict_is_known_before_sqlalchemy_has_wrapped_it() -> None:
    assert is_conflict(asyncpg.exceptions.LockNotAvailableError("lock timeout"))
    assert is_conflict(psycopg.errors.DeadlockDetected("deadlock detected"))


@pytest.mark.parametrize(
    "error",
    [
        wrapped(exc.DBAPIError),
        wrapped(exc.OperationalError, state="57P01"),
        wrapped(exc.IntegrityError, state="23505"),
        TimeoutError(),
        ValueError("55P03"),
    ],
    ids=["no state", "server stopped", "unique", "timeout", "a bug"],
)
def test_other_errors_are_no_conflicts(error: Exception) -> None:
    assert not is_conflict(error)


@pytest.mark.parametrize("state", STATES)
def test_known_states_are_described_in_plain_words(state: str) -> None:
    assert describe(wrapped(exc.DBAPIError, state=state)) == STATES[state]


def test_a_description_holds_neither_the_statement_nor_its_values_nor_details() -> None:
    text = describe(wrapped(exc.OperationalError))
    assert text == "server closed the connection unexpectedly"


def test_a_timeout_without_a_text_is_described() -> None:
    assert describe(TimeoutError()) == "it did not answer in time"
    assert describe(TimeoutError("10 s")) == "10 s"


@pytest.mark.parametrize(
    "text",
    [
        "cannot perform operation: another operation is in progress",
        "cannot switch to state 11; another operation (2) is in progress",
    ],
)
def test_what_a_driver_says_of_a_broken_connection_is_described(text: str) -> None:
    expected = "the connection broke in the middle of a statement"
    assert describe(asyncpg.exceptions.InterfaceError(text)) == expected
