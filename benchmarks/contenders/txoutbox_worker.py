"""txoutbox 0.2.2 on PostgreSQL, with the wake-up by LISTEN/NOTIFY of its README.

Settings: its `batch_size` and `concurrency` come from the harness (500 and 100). Its README says
that throughput grows with the batch until claims are the limit; 500 and 100 keep the worst round,
`ceil(500 / 100) * 5 s`, within the lease of 60 s. They are not its fastest: in two turns each, a
backlog of 5,000 was drained some 15 % faster with 1,000 and 200. `strict_ordering` stays on:
it keeps the order of a key, as postroom does. The publisher awaits the confirm of aio-pika; with
`on_return_raises`, a setting of aio-pika, a message that no queue takes is an error.
"""

import asyncio
import sys

import aio_pika
import asyncpg
from txoutbox import OutboxMessage, Relay, RelayConfig  # type: ignore[import-not-found]
from txoutbox.adapters.postgres import PostgresStorage  # type: ignore[import-not-found]

from benchmarks.contenders.control import (
    EXCHANGE,
    ROUTING_KEY,
    Task,
    go,
    read_task,
    run_until_stopped,
)


def storage(pool: asyncpg.Pool, task: Task) -> PostgresStorage:
    return PostgresStorage(pool, table=task.table, notify_channel=task.table)


async def create(task: Task) -> None:
    """Create its table, with the trigger that notifies."""
    async with asyncpg.create_pool(task.database, min_size=1) as pool:
        await storage(pool, task).create_schema()


async def deliver(task: Task) -> None:
    raises = task.settings.pop("on_return_raises", False)
    await go()
    async with (
        asyncpg.create_pool(task.database) as pool,
        await aio_pika.connect_robust(task.broker) as broker,
    ):
        channel = await broker.channel(publisher_confirms=True, on_return_raises=raises)
        exchange = await channel.get_exchange(EXCHANGE, ensure=False)

        async def publish(message: OutboxMessage) -> None:
            sent = aio_pika.Message(
                message.payload,
                message_id=str(message.id),
                type=message.topic,
                timestamp=message.created_at,
                content_type="application/json",
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            )
            await exchange.publish(sent, ROUTING_KEY, mandatory=True)

        outbox = storage(pool, task)
        relay = Relay(outbox, publish, config=RelayConfig(**task.settings))
        async with await outbox.listen(relay.wake), relay:
            await run_until_stopped()


if __name__ == "__main__":
    asyncio.run((create if sys.argv[2:] == ["create"] else deliver)(read_task()))
