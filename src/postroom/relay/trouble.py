"""What an error means: the database is away, or something is wrong that waiting cannot mend."""

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

OURS = (DataError, IntegrityError, ProgrammingError)
DRIVERS = ("asyncpg", "psycopg", "aiosqlite", "sqlite3")
"""Some errors of a driver come bare: those of a connection that is being made."""


def database_outage(error: BaseException) -> bool:
    """Tell whether an error of a database is nobody's fault, and will pass by itself.

    For an answer such as 503, and for a handler that is to `raise Outage` when its own database is
    away.
    """
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or not isinstance(error, OURS)
    bare = type(error).__module__.partition(".")[0] in DRIVERS
    return bare or isinstance(error, OSError | TimeoutError | PoolTimeoutError)
