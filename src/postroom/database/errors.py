"""What an error of the database means: an outage, a conflict, a changed schema, or a bug."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from postroom.errors import DRIVERS, ConfigurationError, error_text


class Kind(StrEnum):
    """What to do about an error."""

    OUTAGE = "outage"
    """Wait, connect again, and try again: the database is unavailable."""
    CONFLICT = "conflict"
    """Try again at once: another transaction was in the way."""
    SCHEMA = "schema"
    """A worker that runs waits, as in an outage: a table, column or privilege is missing."""
    BUG = "bug"
    """Raise it: the statement, its values or a trigger is wrong."""


KINDS: Final[Mapping[str, Kind]] = {
    "08": Kind.OUTAGE,  # connection exception
    "0A": Kind.BUG,  # feature not supported; a stale plan is a conflict
    "0P": Kind.SCHEMA,  # invalid role specification
    "20": Kind.BUG,  # case not found
    "21": Kind.BUG,  # cardinality violation
    "22": Kind.BUG,  # data exception
    "23": Kind.BUG,  # integrity constraint violation
    "25": Kind.OUTAGE,  # invalid transaction state: read only, ended because idle
    "26": Kind.BUG,  # invalid statement name: PgBouncer mixes up prepared statements
    "27": Kind.BUG,  # triggered data change violation
    "28": Kind.OUTAGE,  # invalid authorization
    "2F": Kind.BUG,  # SQL routine exception
    "38": Kind.BUG,  # external routine exception
    "39": Kind.BUG,  # external routine invocation exception
    "3D": Kind.OUTAGE,  # no such database
    "3F": Kind.SCHEMA,  # no such schema
    "40": Kind.CONFLICT,  # transaction rollback: serialization failure, deadlock
    "40002": Kind.BUG,  # integrity constraint violation
    "40003": Kind.OUTAGE,  # statement completion unknown
    "42": Kind.SCHEMA,  # no such table, column or function; no privilege; another type
    "42601": Kind.BUG,  # syntax error
    "42P05": Kind.BUG,  # duplicate prepared statement: PgBouncer mixes them up
    "44": Kind.BUG,  # WITH CHECK OPTION violation
    "53": Kind.OUTAGE,  # insufficient resources: disk full, too many connections
    "54": Kind.BUG,  # program limit exceeded
    "55": Kind.OUTAGE,  # object not in prerequisite state
    "55P03": Kind.CONFLICT,  # lock not available
    "57": Kind.OUTAGE,  # operator intervention: shut down, starting up, statement timeout
    "58": Kind.OUTAGE,  # system error
    "72": Kind.CONFLICT,  # snapshot too old
    "F0": Kind.OUTAGE,  # configuration file error
    "HV": Kind.OUTAGE,  # foreign data wrapper error
    "P0": Kind.BUG,  # PL/pgSQL error: what a trigger raises
    "XX": Kind.OUTAGE,  # internal error, such as a table that is dropped meanwhile
}
"""By PostgreSQL's SQLSTATE, or its class: the first two characters. Others are an outage."""
LOCKED: Final = "55P03"
BUSY: Final = "database is locked"
"""How SQLite says that another process writes."""
STATES: Final = {
    "40P01": "two transactions waited for each other's locks (deadlock)",
    "40001": "another transaction changed the same rows",
    LOCKED: "another transaction holds a lock on the same rows (on SQLite, on the file)",
    "25P03": "the server ended a transaction of ours that was idle for too long",
    "57014": "a statement took too long",
}
BROKEN: Final = "the connection broke in the middle of a statement"
STALE: Final = ("InvalidCachedStatementError", "OutdatedSchemaCacheError")
"""What asyncpg raises when a table has changed since a statement was prepared."""
REVALIDATION: Final = "RevalidateCachedQuery"
"""The function of the server that says so to psycopg."""
CHANGED: Final = "a table has changed since a statement was prepared"
MISTAKES: Final = ("DataError", "IntegrityError", "NotSupportedError", "ProgrammingError")
"""The classes of Python's database API that are about the statement; asyncpg's have ValueError."""
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


def kind_of(error: BaseException) -> Kind:
    """Return what an error means; BUG if it is no error of a database. Pure."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return Kind.OUTAGE
    if is_stale(error):
        return Kind.CONFLICT
    if state := sql_state(error):
        return KINDS.get(state) or KINDS.get(state[:2], Kind.OUTAGE)
    if _is_of_driver(error) and is_table_missing(error):
        return Kind.SCHEMA
    names = {each.__name__ for each in type(error).__mro__}
    if isinstance(error, ValueError) or not names.isdisjoint(MISTAKES):
        return Kind.BUG
    passing = isinstance(error, OSError | TimeoutError | PoolTimeoutError) or _is_of_driver(error)
    return Kind.OUTAGE if passing else Kind.BUG


def database_outage(error: BaseException) -> bool:
    """Return whether an error means that a database is unavailable, so that waiting helps.

    False for an error in a statement or its values. Use it in a handler that raises OutageError
    when its own database is away, or for a response with status 503.
    """
    return kind_of(error) in (Kind.OUTAGE, Kind.CONFLICT)


def is_conflict(error: BaseException) -> bool:
    """Return whether a transaction failed only because of another one: a lock or a deadlock."""
    return kind_of(error) is Kind.CONFLICT


def is_table_missing(error: BaseException) -> bool:
    """Return whether a statement names a table or a column that is not there."""
    return sql_state(error) in UNDEFINED or error_text(error).startswith(NO_SUCH)


def is_stale(error: BaseException) -> bool:
    """Return whether a table has changed since a statement was prepared on its connection."""
    source = getattr(error, "orig", None) or error
    names = {type(each).__name__ for each in (source, source.__cause__)}
    function = getattr(getattr(source, "diag", None), "source_function", None)
    return not names.isdisjoint(STALE) or function == REVALIDATION


def sql_state(error: BaseException) -> str:
    """Return the state that PostgreSQL gave, or what it would be of SQLite; or an empty text."""
    source = getattr(error, "orig", None) or error
    if str(source).startswith(BUSY):
        return LOCKED
    return str(getattr(source, "sqlstate", None) or "")


def describe(error: BaseException) -> str:
    """Say in plain words what went wrong, for a log line."""
    if isinstance(error, TimeoutError) and not str(error):
        return "it did not answer in time"
    if is_stale(error):
        return CHANGED
    text = error_text(error)
    if "cannot switch to state" in text or "another operation is in progress" in text:
        return BROKEN
    return STATES.get(sql_state(error), text)


def explain_pooler(error: Exception) -> None:
    """Raise ConfigurationError, with the remedy, if PgBouncer has mixed up statements."""
    if sql_state(error) in POOLER_STATES:
        raise ConfigurationError(POOLER_REMEDY) from error


def _is_of_driver(error: BaseException) -> bool:
    return isinstance(error, DBAPIError) or type(error).__module__.partition(".")[0] in DRIVERS
