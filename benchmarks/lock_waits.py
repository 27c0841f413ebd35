"""Counts the backends of PostgreSQL that wait for a lock of another one, by looking often."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import asyncpg
from sqlalchemy import make_url

INTERVAL: Final = 0.005
WAITING: Final = """SELECT waiting.pid, waiting.query, held.query AS holder
    FROM pg_stat_activity waiting
    CROSS JOIN LATERAL unnest(pg_blocking_pids(waiting.pid)) AS blocking(pid)
    JOIN pg_stat_activity held ON held.pid = blocking.pid
    WHERE waiting.wait_event_type = 'Lock' AND waiting.datname = current_database()
        AND held.application_name = $1"""


@dataclass(slots=True)
class LockWaits:
    """How often was looked, and how often somebody waited for an application."""

    looks: int = 0
    waits: int = 0
    example: str = ""


@asynccontextmanager
async def watched_locks(url: str, application: str) -> AsyncIterator[LockWaits]:
    """Look for backends that wait for those of an application, every 5 ms."""
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    connection = await asyncpg.connect(address)
    seen = LockWaits()
    watching = asyncio.create_task(_watch(connection, application, seen))
    try:
        yield seen
    finally:
        watching.cancel()
        await asyncio.wait({watching})
        await connection.close()
    if not watching.cancelled():
        watching.result()


async def _watch(connection: asyncpg.Connection, application: str, seen: LockWaits) -> None:
    while True:
        for row in await connection.fetch(WAITING, application):
            seen.waits += 1
            seen.example = f"{row['query']}\nwaits for\n{row['holder']}"
        seen.looks += 1
        await asyncio.sleep(INTERVAL)
