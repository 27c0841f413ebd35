"""pgqueuer 1.6.0: a job for each event, whose entrypoint publishes with aio-pika.

The entrypoint is registered as its README shows, with the default executor: an exception ends the
job, and the job is deleted. `DatabaseRetryEntrypointExecutor` would try five times.
"""

import asyncio
import sys

import aio_pika
import asyncpg
from pgqueuer import PgQueuer  # type: ignore[import-not-found]
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found]
from pgqueuer.models import Job  # type: ignore[import-not-found]
from pgqueuer.queries import Queries  # type: ignore[import-not-found]

from benchmarks.contenders.control import (
    EXCHANGE,
    ROUTING_KEY,
    Task,
    go,
    read_task,
    run_until_stopped,
)

ENTRYPOINT = "publish"


async def create(task: Task) -> None:
    """Create its tables, as `pgq install` does."""
    connection = await asyncpg.connect(task.database)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


async def deliver(task: Task) -> None:
    await go()
    connection = await asyncpg.connect(task.database)
    broker = await aio_pika.connect_robust(task.broker)
    exchange = await (await broker.channel()).get_exchange(EXCHANGE)
    queuer = PgQueuer(AsyncpgDriver(connection))

    @queuer.entrypoint(ENTRYPOINT)  # type: ignore[untyped-decorator]
    async def publish(job: Job) -> None:
        persistent = aio_pika.DeliveryMode.PERSISTENT
        message = aio_pika.Message(job.payload or b"", delivery_mode=persistent)
        await exchange.publish(message, ROUTING_KEY)

    running = asyncio.create_task(queuer.run())
    await run_until_stopped()
    running.cancel()


if __name__ == "__main__":
    asyncio.run((create if sys.argv[2:] == ["create"] else deliver)(read_task()))
