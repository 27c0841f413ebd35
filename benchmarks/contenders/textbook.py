"""The loop of most tutorials: 100 rows FOR UPDATE SKIP LOCKED, publish and update one by one.

It has no leases, no retries, no notifications, and a transaction that is open while it publishes.
"""

import asyncio

import aio_pika
import asyncpg
from aio_pika.abc import AbstractExchange

from benchmarks.contenders.aio_pika_alone import message
from benchmarks.contenders.control import (
    EXCHANGE,
    ROUTING_KEY,
    Task,
    go,
    read_task,
    run_until_stopped,
)
from benchmarks.contenders.messages import Letter, headers

BATCH = 100
PAUSE = 1.0


async def deliver_batch(
    connection: asyncpg.Connection, exchange: AbstractExchange, table: str
) -> int:
    """Publish up to 100 rows; give how many there were."""
    async with connection.transaction():
        rows = await connection.fetch(
            f"SELECT id, event_id, key, payload::text, created_at FROM {table}"
            f" WHERE published_at IS NULL ORDER BY id LIMIT {BATCH} FOR UPDATE SKIP LOCKED"
        )
        for row in rows:
            await exchange.publish(message(letter(row)), ROUTING_KEY, mandatory=True)
            await connection.execute(
                f"UPDATE {table} SET published_at = now() WHERE id = $1", row["id"]
            )
    return len(rows)


def letter(row: asyncpg.Record) -> Letter:
    return Letter(
        message_id=str(row["event_id"]),
        body=row["payload"].encode(),
        headers=headers(row["id"], row["key"], row["created_at"]),
        timestamp=row["created_at"],
    )


async def deliver_for_ever(task: Task) -> None:
    connection = await asyncpg.connect(task.database)
    async with await aio_pika.connect(task.broker) as broker:
        channel = await broker.channel(publisher_confirms=True)
        exchange = await channel.get_exchange(EXCHANGE, ensure=False)
        while True:
            if not await deliver_batch(connection, exchange, task.table):
                await asyncio.sleep(PAUSE)


async def main() -> None:
    await go()
    delivering = asyncio.create_task(deliver_for_ever(read_task()))
    await run_until_stopped()
    delivering.cancel()


if __name__ == "__main__":
    asyncio.run(main())
