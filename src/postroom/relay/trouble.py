"""What an error means: the database is away, or something is wrong that waiting cannot mend."""

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

OURS = (DataError, IntegrityError, NotSupportedError, ProgrammingError)
DRIVERS = ("asyncpg", "psycopg", "aiosqlite", "sqlite3")
"""Some errors of a driver come bare: those of a connection that is being made."""


def database_outage(error: BaseException) -> bool:
    """Tell whether an error of the store will pass by itself."""
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or not isinstance(error, OURS)
    bare = type(error).__module__.partition(".")[0] in DRIVERS
    return bare or isinstance(error, OSError | TimeoutError | PoolTimeoutError)


def one_line(error: BaseException) -> str:
    """Say what an error says, without the statement and its values."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    text = str(cause).strip() or type(cause).__name__
    return text.splitlines()[0]
