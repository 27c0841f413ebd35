"""Commits orders and enqueues their events as jobs of pgqueuer, in one transaction of asyncpg."""

import asyncio
from collections.abc import Callable, Sequence
from json import dumps

import asyncpg
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found]
from pgqueuer.queries import Queries  # type: ignore[import-not-found]

from benchmarks.contenders.control import read_task
from benchmarks.contenders.orders import INSERT_ORDER, Event, serve
from benchmarks.contenders.pgqueuer_worker import ENTRYPOINT


async def main() -> None:
    task = read_task()
    connection = await asyncpg.connect(task.database)
    queries = Queries(AsyncpgDriver(connection))

    async def place(events: Sequence[Event], committed: Callable[[], None]) -> None:
        async with connection.transaction():
            for event in events:
                await connection.execute(INSERT_ORDER.format(event.number))
                await queries.enqueue(ENTRYPOINT, dumps(event.payload).encode())
        committed()

    await serve(task, place)


if __name__ == "__main__":
    asyncio.run(main())
