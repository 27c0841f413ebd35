"""Who holds a lock on the tables of an outbox, so that its relays wait."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import text

from postroom.database.database import Database
from postroom.database.errors import describe

logger = logging.getLogger("postroom.relay")

BLOCKING: Final = ("ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock")
"""What keeps out those who change rows."""


class LockWatch:
    """Finds out who keeps a relay from the tables, when it has met a lock.

    `problem`: who, and for how many seconds; None if nobody does, or nobody has looked yet.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._met: tuple[str, float] | None = None
        self._found = ""

    @property
    def problem(self) -> tuple[str, float] | None:
        if self._met is None or not self._found:
            return None
        return self._found, self._monotonic() - self._met[1]

    @property
    def was_met(self) -> bool:
        """Whether the last transaction was given up."""
        return self._met is not None

    def met(self, error: Exception) -> None:
        """Note that a transaction was given up, because of another one."""
        self._met = describe(error), self._met[1] if self._met else self._monotonic()

    def gone(self) -> None:
        """Note that a transaction has succeeded."""
        self._met, self._found = None, ""

    async def look(self, database: Database, within: float) -> None:
        """Find out who it is, if a lock was met; log it once. Never fails."""
        if self._met is None:
            return
        found = self._met[0]
        try:
            async with asyncio.timeout(within):
                found = await lock_holder(database) or found
        except Exception as error:
            logger.debug("postroom: cannot look for locks: %s", describe(error))
        if self.was_met and found != self._found:  # it may be gone meanwhile
            self._found = found
            logger.warning("postroom: nothing is delivered at the moment: %s", found)


async def lock_holder(database: Database) -> str:
    """Say which session locks a table of an outbox; empty if none does, and on SQLite.

    A role sees the process of every session, and when a transaction of another role began only as
    a member of pg_read_all_stats.
    """
    if not database.sql.shares_work:
        return ""
    n = database
    tables = (n.records, n.leases, n.workers, n.blocked, n.attempts, n.pauses)
    rows = await database.fetch(text(_question(tables)))
    return _sentence(rows[0]) if rows else ""


def _question(tables: tuple[str, ...]) -> str:
    names = ", ".join("to_regclass('{}')".format(each.replace("'", "''")) for each in tables)
    modes = ", ".join(f"'{each}'" for each in BLOCKING)
    return f"""SELECT c.relname AS name, l.pid, l.granted, a.application_name AS program,
            to_char(a.xact_start AT TIME ZONE 'UTC', 'HH24\\:MI\\:SS') AS since,
            CASE WHEN NOT l.granted
                THEN array_to_string(pg_blocking_pids(l.pid), ', ') END AS behind
        FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
        LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        WHERE l.locktype = 'relation' AND l.mode IN ({modes}) AND l.relation IN ({names})
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        ORDER BY l.granted DESC, a.xact_start LIMIT 1"""


def _sentence(row: Any) -> str:
    holder = "a prepared transaction" if row.pid is None else f"pid {row.pid}"
    program = f" ({row.program})" if row.program else ""
    since = f" since {row.since} UTC" if row.since else ""
    if row.granted:
        return f"the table {row.name} is locked by {holder}{program}{since}"
    behind = f", which waits for pid {row.behind}" if row.behind else ""
    return f"the table {row.name} is about to be locked by {holder}{program}{behind}"
