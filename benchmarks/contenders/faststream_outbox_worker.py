"""faststream-outbox 0.19.0, which relays to FastStream's RabbitBroker by a stacked decorator.

Settings: those of the harness, from its page on performance: `terminal_flush_batch_size=100` for
few deletes, and more `max_workers` and `fetch_batch_size`, which let as many publishes wait for
their confirms at once. Its wake-up by LISTEN/NOTIFY comes with asyncpg. It keeps no order.
With `on_return_raises`, a setting of the channel, a message that no queue takes is an error.
"""

import asyncio
import sys
from typing import Any

from faststream.rabbit import (  # type: ignore[import-not-found]
    Channel,
    ExchangeType,
    RabbitBroker,
    RabbitExchange,
)
from faststream_outbox import OutboxBroker, make_outbox_table  # type: ignore[import-not-found]
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.contenders.control import (
    EXCHANGE,
    ROUTING_KEY,
    Task,
    go,
    read_task,
    run_until_stopped,
)


async def create(task: Task) -> None:
    """Create its table."""
    metadata = MetaData()
    make_outbox_table(metadata, table_name=task.table)
    engine = create_async_engine(task.database.replace("postgresql:", "postgresql+asyncpg:"))
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    await engine.dispose()


async def relay(body: dict[str, Any]) -> dict[str, Any]:
    return body


async def deliver(task: Task) -> None:
    workers = task.settings.get("max_workers", 1)
    channel = Channel(on_return_raises=task.settings.pop("on_return_raises", False))
    engine = create_async_engine(
        task.database.replace("postgresql:", "postgresql+asyncpg:"), pool_size=workers + 4
    )
    table = make_outbox_table(MetaData(), table_name=task.table)
    outbox = OutboxBroker(engine, outbox_table=table, logger=None)
    rabbit = RabbitBroker(task.broker, logger=None, default_channel=channel)
    exchange = RabbitExchange(EXCHANGE, type=ExchangeType.TOPIC, durable=True, declare=False)
    publisher = rabbit.publisher(exchange=exchange, routing_key=ROUTING_KEY, persist=True)

    publisher(outbox.subscriber(task.table, **task.settings)(relay))
    await go()
    await rabbit.connect()
    await outbox.start()
    await run_until_stopped()
    await outbox.stop()
    await rabbit.stop()
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run((create if sys.argv[2:] == ["create"] else deliver)(read_task()))
