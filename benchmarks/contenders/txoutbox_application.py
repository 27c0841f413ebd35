"""Commits orders and their events in txoutbox's table, in one transaction of asyncpg."""

import asyncio
from collections.abc import Callable, Sequence

import asyncpg

from benchmarks.contenders.control import ROUTING_KEY, read_task
from benchmarks.contenders.orders import INSERT_ORDER, Event, serve
from benchmarks.contenders.txoutbox_worker import storage


async def main() -> None:
    task = read_task()
    pool = await asyncpg.create_pool(task.database, min_size=1)
    outbox = storage(pool, task)

    async def place(events: Sequence[Event], committed: Callable[[], None]) -> None:
        async with pool.acquire() as connection, connection.transaction():
            for event in events:
                await connection.execute(INSERT_ORDER.format(event.number))
                await outbox.insert(connection, ROUTING_KEY, event.payload, key=event.key)
        committed()

    await serve(task, place)


if __name__ == "__main__":
    asyncio.run(main())
