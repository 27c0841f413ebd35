"""Hears what `notify` tells: LISTEN, on a connection of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncEngine

CHECK_EVERY: Final = 300.0
"""Seconds after which a silent connection is asked whether it is still there."""
CHECK_WITHIN: Final = 10.0

Told = Callable[[], object]


async def listen(engine: AsyncEngine, channel: str, told: Told) -> None:
    """Call `told` at once, and for each notification; ends, or raises, when the connection does."""
    async with _connection(engine) as connection:
        if engine.dialect.driver == "asyncpg":
            await _by_asyncpg(connection, channel, told)
        else:
            name = engine.dialect.identifier_preparer.quote_identifier(channel)
            await _by_psycopg(connection, name, told)


def can_listen(engine: object) -> bool:
    """Tell whether this database has notifications."""
    return isinstance(engine, AsyncEngine) and engine.dialect.driver in (
        "asyncpg",
        "psycopg",
        "psycopg_async",
    )


@asynccontextmanager
async def _connection(engine: AsyncEngine) -> AsyncIterator[Any]:
    async with engine.connect() as connection:
        autocommit = await connection.execution_options(isolation_level="AUTOCOMMIT")
        try:
            yield (await autocommit.get_raw_connection()).driver_connection
        finally:
            await connection.invalidate()  # it listens: nobody else is to have it


async def _by_asyncpg(connection: Any, channel: str, told: Told) -> None:
    lost = asyncio.Event()
    connection.add_termination_listener(lambda _: lost.set())
    await connection.add_listener(channel, lambda *_: told())
    told()
    while not lost.is_set():
        try:
            async with asyncio.timeout(CHECK_EVERY):
                await lost.wait()
        except TimeoutError:
            await connection.execute("SELECT 1", timeout=CHECK_WITHIN)


async def _by_psycopg(connection: Any, channel: str, told: Told) -> None:
    await connection.set_autocommit(True)
    await connection.execute(f"LISTEN {channel}")
    told()
    while not connection.closed:
        async for _ in connection.notifies(timeout=CHECK_EVERY):
            told()
        async with asyncio.timeout(CHECK_WITHIN):
            await connection.execute("SELECT 1")
