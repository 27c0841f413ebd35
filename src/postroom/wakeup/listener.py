"""Wakes the relay when another process has committed records: LISTEN, on its own connection.

Polling alone is sufficient. Notifications only reduce latency.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Set
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.clock import Clock
from postroom.database.errors import describe
from postroom.database.postgres import is_behind_pgbouncer
from postroom.wakeup.notifier import partitions_in

logger = logging.getLogger("postroom.relay")

CHECK_EVERY: Final = 300.0
"""Seconds after which a silent connection is asked whether it is still there."""
CHECK_WITHIN: Final = 10.0
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
"""Seconds before it connects again; the pause doubles up to the longest."""
GRACE: Final = 2.0
"""Seconds for the listener to begin, and to end."""

Heard = Callable[[str], object]
Wake = Callable[[Set[int] | None], object]
"""Takes the partitions in which there are new records; None if they are not known."""
Changed = Callable[[bool], object]
"""Takes whether the listener is connected, when that has changed or it has tried again."""


def can_listen(engine: object) -> bool:
    """Return whether this database has notifications."""
    drivers = ("asyncpg", "psycopg", "psycopg_async")
    return isinstance(engine, AsyncEngine) and engine.dialect.driver in drivers


@asynccontextmanager
async def listening(
    engine: AsyncEngine,
    channel: str | None,
    table: str,
    wake: Wake,
    clock: Clock,
    changed: Changed,
    again: asyncio.Event,
) -> AsyncIterator[None]:
    """Have other processes wake the relay for as long as the block lasts, if there is a channel.

    Connects again each time `again` is set, after an outage: the old connection may be to a server
    that nobody writes to any more.
    """
    if channel is None:
        yield
        return
    tried = asyncio.Event()
    task = asyncio.create_task(_wake_on_notify(engine, channel, table, wake, changed, tried, again))
    try:
        await clock.wait(tried, GRACE)
        yield
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=GRACE)


async def _wake_on_notify(
    engine: AsyncEngine,
    channel: str,
    table: str,
    wake: Wake,
    changed: Changed,
    tried: asyncio.Event,
    again: asyncio.Event,
) -> None:
    """Call `wake` for each notification, until cancelled; reconnect after a lost connection.

    Sets `tried` once it listens, or has found that it cannot.
    """
    pause = 0.0

    def heard(payload: str) -> None:
        nonlocal pause
        pause = 0.0
        tried.set()
        if not payload:  # it has just connected
            changed(True)
        wake(partitions_in(payload, table))

    try:
        while True:
            reason = "the connection was lost"
            try:
                again.clear()  # first: an outage that ends from now on may leave an old connection
                if await is_behind_pgbouncer(engine):
                    logger.warning(
                        "postroom: behind PgBouncer no notification arrives; the relay only polls."
                        " Set listen=None to say so, or connect to PostgreSQL directly"
                    )
                    changed(False)
                    return
                if await _cut_off_by(again, _listen(engine, channel, heard)):
                    continue
            except Exception as error:
                reason = describe(error)
            if not pause:
                logger.warning("postroom: cannot listen for commits, only polls: %s", reason)
            tried.set()
            changed(False)
            pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * pause))
            with suppress(TimeoutError):
                await asyncio.wait_for(again.wait(), pause)
    finally:
        tried.set()
        await engine.dispose()


async def _cut_off_by(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do something until an event is set; return whether that cut it off."""
    tasks = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        done = tasks[0].done()
        if done:
            tasks[0].result()
        return not done
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _listen(engine: AsyncEngine, channel: str, heard: Heard) -> None:
    """Call `heard` at once and with the payload of each notification, until the connection ends."""
    async with engine.connect() as connection:
        autocommit = await connection.execution_options(isolation_level="AUTOCOMMIT")
        try:
            driver = (await autocommit.get_raw_connection()).driver_connection
            if engine.dialect.driver == "asyncpg":
                await _listen_by_asyncpg(driver, channel, heard)
            else:
                name = engine.dialect.identifier_preparer.quote_identifier(channel)
                await _listen_by_psycopg(driver, name, heard)
        finally:
            await connection.invalidate()  # it listens: nobody else is to use it


async def _listen_by_asyncpg(connection: Any, channel: str, heard: Heard) -> None:
    lost = asyncio.Event()
    connection.add_termination_listener(lambda _: lost.set())
    await connection.add_listener(channel, lambda *notice: heard(str(notice[-1])))
    heard("")
    while not lost.is_set():
        try:
            async with asyncio.timeout(CHECK_EVERY):
                await lost.wait()
        except TimeoutError:
            await connection.execute("SELECT 1", timeout=CHECK_WITHIN)


async def _listen_by_psycopg(connection: Any, channel: str, heard: Heard) -> None:
    await connection.set_autocommit(True)
    await connection.execute(f"LISTEN {channel}")
    heard("")
    while not connection.closed:
        async for notice in connection.notifies(timeout=CHECK_EVERY):
            heard(notice.payload)
        async with asyncio.timeout(CHECK_WITHIN):
            await connection.execute("SELECT 1")
