"""How a question about the outbox is asked: read only, at one moment, within a time limit."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.database.database import Database, Run
from postroom.database.errors import LOCKED, sql_state
from postroom.errors import InspectionTimeoutError
from postroom.outbox import Outbox
from postroom.store.rows import moment

TIME_LIMIT: Final = timedelta(seconds=3)
"""How long a statement may take."""
SEARCH_LIMIT: Final = 100_000
"""How many records a question looks at."""
ENDED: Final = ("57014", LOCKED)
"""What PostgreSQL says of a statement that it has ended, or that waits for a lock of DDL."""
INTERRUPTED: Final = "interrupted"
"""What SQLite says of a statement that was ended."""


class Reader:
    """The database of an outbox, for questions. `shift` is added to its clock, by tests."""

    def __init__(
        self,
        outbox: Outbox,
        engine: AsyncEngine,
        *,
        time_limit: timedelta = TIME_LIMIT,
        search_limit: int = SEARCH_LIMIT,
        shift: Callable[[], timedelta] = timedelta,
    ) -> None:
        self.outbox = outbox
        self.time_limit = time_limit
        self.search_limit = search_limit
        self.database = Database(engine, outbox.tables, shift=shift, time_limit=time_limit)
        self._now = text(f"SELECT {self.database.sql.now} AS now")

    @asynccontextmanager
    async def ask(self, question: str) -> AsyncIterator[Run]:
        """Begin a transaction that reads one moment. The question is for the error's text.

        Raises InspectionTimeoutError. No statement waits for a lock, nor does anybody wait for it.
        """
        try:
            async with (
                asyncio.timeout(self._total),
                self.database.transaction(snapshot=True) as run,
            ):
                yield run
        except Exception as error:
            if _took_too_long(error):
                seconds = self.time_limit.total_seconds()
                raise InspectionTimeoutError(question, seconds) from error
            raise

    async def now(self, run: Run) -> datetime:
        """Return the database's time."""
        [row] = await run(self._now)
        return time_of(row.now)

    @property
    def _total(self) -> float | None:
        """Seconds for all statements together; on SQLite a thread cannot be cancelled."""
        is_threaded = self.database.sql.shielded
        return None if is_threaded else 2 * self.time_limit.total_seconds()


def time_of(value: Any) -> datetime:
    """Read a time, whatever the time zone of the connection."""
    return moment(value).astimezone(UTC)


def time_or_none(value: Any) -> datetime | None:
    """Read a time; None for one that is no time, as SQLite lets a column hold."""
    try:
        return None if value is None else time_of(value)
    except (ValueError, TypeError, OverflowError):
        return None


def _took_too_long(error: Exception) -> bool:
    if isinstance(error, OperationalError) and str(error.orig) == INTERRUPTED:
        return True
    return sql_state(error) in ENDED or type(error) is TimeoutError
