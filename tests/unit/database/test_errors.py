"""What an error of the database means."""

import sqlite3
from collections.abc import Callable

import asyncpg.exceptions
import psycopg
import pytest
from sqlalchemy import exc

from postroom.database.errors import (
    CHANGED,
    KINDS,
    STATES,
    Kind,
    database_outage,
    describe,
    is_conflict,
    kind_of,
)
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


STATE_KINDS = {
    Kind.OUTAGE: """08006 08003 25006 25P03 28P01 28000 3D000 40003 53100 53200 53300 55000 55006
        57014 57P01 57P02 57P03 57P04 58030 58P01 F0000 HV00N XX000 XX001 99999""",
    Kind.CONFLICT: "40001 40P01 40000 55P03 72000",
    Kind.SCHEMA: """42P01 42703 42501 42883 42704 42804 42809 42P10 428C9 42939 3F000 0P000""",
    Kind.BUG: """0A000 20000 21000 22001 22012 22P02 23502 23503 23505 26000 27000 2F005
        38000 39000 40002 42601 42P05 44000 54001 P0001 P0004""",
}
"""What each state means. A class that KINDS names has a state here."""
EACH_STATE = [(state, kind) for kind, states in STATE_KINDS.items() for state in states.split()]


def of_asyncpg(state: str) -> Exception:
    error: Exception = asyncpg.exceptions.PostgresError.new({"C": state, "M": "no"})
    return error


def of_psycopg(state: str) -> Exception:
    try:
        return psycopg.errors.lookup(state)("no")
    except KeyError:  # one that it does not know
        error = psycopg.DatabaseError("no")
        error.sqlstate = state
        return error


def wrapped_as_programming_error(state: str) -> Exception:
    return wrapped(exc.ProgrammingError, state=state)


def wrapped_as_error(state: str) -> Exception:
    return wrapped(exc.DBAPIError, state=state)


@pytest.mark.parametrize(
    "form", [of_asyncpg, of_psycopg, wrapped_as_programming_error, wrapped_as_error]
)
@pytest.mark.parametrize(("state", "kind"), EACH_STATE)
def test_a_state_means_the_same_from_every_driver(
    state: str, kind: Kind, form: Callable[[str], Exception]
) -> None:
    error = form(state)
    assert kind_of(error) is kind
    assert database_outage(error) is (kind in (Kind.OUTAGE, Kind.CONFLICT))
    assert is_conflict(error) is (kind is Kind.CONFLICT)


def test_every_class_of_states_is_tested() -> None:
    tested = {state for state, _ in EACH_STATE}
    assert {each for each in KINDS if not any(it.startswith(each) for it in tested)} == set()


def wrapped_driver(kind: type[exc.DBAPIError], driver: BaseException) -> exc.DBAPIError:
    return kind("SELECT 1", {}, driver)


def caused(by: BaseException) -> Exception:
    """Return an error as SQLAlchemy has one for each of asyncpg, with asyncpg's as its cause."""
    error = DriverError(str(by))
    error.__cause__ = by
    return error


stale = asyncpg.exceptions.InvalidCachedStatementError("cached statement plan is invalid")
outdated = asyncpg.exceptions.OutdatedSchemaCacheError("the type has changed")
WITHOUT_STATE = [
    (stale, Kind.CONFLICT),
    (wrapped_driver(exc.NotSupportedError, caused(stale)), Kind.CONFLICT),
    (outdated, Kind.CONFLICT),
    (wrapped_driver(exc.InternalError, caused(outdated)), Kind.CONFLICT),
    (asyncpg.exceptions.InterfaceError("connection is closed"), Kind.OUTAGE),
    (asyncpg.exceptions.ConnectionDoesNotExistError("closed in the middle"), Kind.OUTAGE),
    (asyncpg.exceptions.TargetServerAttributeNotMatched("no primary"), Kind.OUTAGE),
    (asyncpg.exceptions.DataError("invalid input for query argument $1"), Kind.BUG),
    (psycopg.OperationalError("server closed the connection"), Kind.OUTAGE),
    (psycopg.InterfaceError("the connection is closed"), Kind.OUTAGE),
    (psycopg.ProgrammingError("the query has 1 placeholder"), Kind.BUG),
    (psycopg.DataError("cannot dump"), Kind.BUG),
    (psycopg.NotSupportedError("not here"), Kind.BUG),
    (sqlite3.OperationalError("no such table: outbox"), Kind.SCHEMA),
    (sqlite3.OperationalError("no such column: due_at"), Kind.SCHEMA),
    (sqlite3.OperationalError("database is locked"), Kind.CONFLICT),
    (sqlite3.OperationalError("database or disk is full"), Kind.OUTAGE),
    (sqlite3.OperationalError("attempt to write a readonly database"), Kind.OUTAGE),
    (sqlite3.OperationalError("disk I/O error"), Kind.OUTAGE),
    (sqlite3.DatabaseError("file is not a database"), Kind.OUTAGE),
    (sqlite3.IntegrityError("UNIQUE constraint failed"), Kind.BUG),
    (
        wrapped_driver(exc.OperationalError, sqlite3.OperationalError("no such table: outbox")),
        Kind.SCHEMA,
    ),
    (wrapped_driver(exc.OperationalError, sqlite3.OperationalError("disk I/O error")), Kind.OUTAGE),
    (wrapped_driver(exc.IntegrityError, sqlite3.IntegrityError("UNIQUE")), Kind.BUG),
    (LookupError("no such table: outbox"), Kind.BUG),
]


@pytest.mark.parametrize(("error", "kind"), WITHOUT_STATE, ids=repr)
def test_an_error_without_a_state_is_known_by_its_class_or_its_text(
    error: Exception, kind: Kind
) -> None:
    assert kind_of(error) is kind


def test_a_stale_statement_is_described() -> None:
    assert describe(stale) == CHANGED


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


@pytest.mark.parametrize("state", ["40P01", "40001", "55P03", "72000"])
def test_a_lock_or_a_deadlock_is_a_conflict_and_passes_by_itself(state: str) -> None:
    error = wrapped(exc.DBAPIError, state=state)
    assert is_conflict(error)
    assert database_outage(error)


def test_a_file_that_another_process_writes_to_is_a_conflict() -> None:
    assert is_conflict(sqlite3.OperationalError("database is locked"))
    assert not is_conflict(sqlite3.OperationalError("disk I/O error"))


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
