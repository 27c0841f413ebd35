"""What an error means: the database is away, or something is wrong that waiting cannot mend."""

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

OURS = (DataError, IntegrityError, ProgrammingError)
LASTING = ("0A", "21", "22", "23", "2F", "42", "44", "P0")
"""The classes of PostgreSQL's states that say no to a statement, with P0 for what triggers raise.

SQLAlchemy has a class of its own for a part of them only."""
DRIVERS = ("asyncpg", "psycopg", "aiosqlite", "sqlite3")
"""Some errors of a driver come bare: those of a connection that is being made."""


def database_outage(error: BaseException) -> bool:
    """Tell whether an error of a database is nobody's fault, and will pass by itself.

    For an answer such as 503, and for a handler that is to `raise Outage` when its own database is
    away.
    """
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or not _lasts(error)
    bare = type(error).__module__.partition(".")[0] in DRIVERS
    return bare or isinstance(error, OSError | TimeoutError | PoolTimeoutError)


def _lasts(error: DBAPIError) -> bool:
    """Tell whether the database has an objection to the statement, today and tomorrow."""
    state = str(getattr(error.orig, "sqlstate", None) or "")
    return isinstance(error, OURS) or state.startswith(LASTING)
