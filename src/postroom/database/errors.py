"""What an error of the database means: an outage, a lock, a pooler in between, or a mistake."""

from typing import Final

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from postroom.errors import DRIVERS, ConfigurationError, error_text

LASTING: Final = ("0A", "21", "22", "23", "26", "2F", "42", "44", "P0")
"""The classes of PostgreSQL's states that refuse a statement, with P0 for what triggers raise.

SQLAlchemy has a class of its own for a part of them only."""
LOCKED: Final = "55P03"
CONFLICTS: Final = {
    "40P01": "two transactions waited for each other's locks (deadlock)",
    "40001": "another transaction changed the same rows",
    LOCKED: "another transaction holds a lock on the same rows",
}
STATES: Final = CONFLICTS | {
    "25P03": "the server ended a transaction of ours that was idle for too long",
    "57014": "a statement took too long",
}
BROKEN: Final = "the connection broke in the middle of a statement"
UNDEFINED: Final = ("42P01", "42703", "3F000")
"""PostgreSQL's states for a table, a column and a schema that are not there."""
NO_SUCH: Final = ("no such table", "no such column")
"""How SQLite says so."""
POOLER_STATES: Final = ("42P05", "26000")
POOLER_REMEDY: Final = (
    "PgBouncer mixes up prepared statements. Use create_async_engine(url, connect_args={"
    "'statement_cache_size': 0, 'prepared_statement_cache_size': 0,"
    " 'prepared_statement_name_func': lambda: ''}) with asyncpg, connect_args={"
    "'prepare_threshold': None} with psycopg, and OutboxRelay(…, listen=None); or connect to"
    " PostgreSQL directly."
)


class ChangedError(Exception):
    """A transaction has to begin again: keys were blocked since it locked what it needs."""

    sqlstate = "40001"


def database_outage(error: BaseException) -> bool:
    """Return whether an error means that a database is unavailable, so that waiting helps.

    False for an error in a statement or its values. Use it in a handler that raises OutageError
    when its own database is away, or for a response with status 503.
    """
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    passing = OSError | TimeoutError | PoolTimeoutError | ChangedError | DBAPIError
    if isinstance(error, passing) or type(error).__module__.partition(".")[0] in DRIVERS:
        return not _is_mistake(error)
    return False


def is_conflict(error: BaseException) -> bool:
    """Return whether a transaction failed only because of another one: a lock or a deadlock."""
    return sql_state(error) in CONFLICTS


def is_table_missing(error: BaseException) -> bool:
    """Return whether a statement names a table or a column that is not there."""
    return sql_state(error) in UNDEFINED or error_text(error).startswith(NO_SUCH)


def sql_state(error: BaseException) -> str:
    """Return the state that PostgreSQL gave, or an empty text."""
    source = getattr(error, "orig", None) or error
    return str(getattr(source, "sqlstate", None) or "")


def describe(error: BaseException) -> str:
    """Say in plain words what went wrong, for a log line."""
    if isinstance(error, TimeoutError) and not str(error):
        return "it did not answer in time"
    text = error_text(error)
    if "cannot switch to state" in text or "another operation is in progress" in text:
        return BROKEN
    return STATES.get(sql_state(error), text)


def explain_pooler(error: Exception) -> None:
    """Raise ConfigurationError, with the remedy, if PgBouncer has mixed up statements."""
    if sql_state(error) in POOLER_STATES:
        raise ConfigurationError(POOLER_REMEDY) from error


def _is_mistake(error: BaseException) -> bool:
    """Return whether the database objects to the statement, today and tomorrow."""
    mistakes = (DataError, IntegrityError, ProgrammingError, ValueError)  # the last by asyncpg
    return isinstance(error, mistakes) or sql_state(error).startswith(LASTING)
