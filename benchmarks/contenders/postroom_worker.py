"""postroom: `OutboxRelay` and `RabbitMQPublisher` with their default settings."""

import asyncio
import gc

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.contenders.control import EXCHANGE, go, read_task, run_until_stopped
from postroom import Outbox, OutboxRelay
from postroom.publishers.rabbitmq import RabbitMQPublisher


async def main() -> None:
    task = read_task()
    outbox = Outbox(MetaData(), table=task.table)
    await go()
    engine = create_async_engine(task.database.replace("postgresql:", "postgresql+asyncpg:"))
    publisher = RabbitMQPublisher(task.broker, exchange=EXCHANGE)
    gc.freeze()  # as `postroom worker` does
    async with OutboxRelay(outbox, engine, publisher, **task.settings).running() as relay:
        while not relay.idle:  # noqa: ASYNC110 - the relay has no event for it
            await asyncio.sleep(0.01)
        await run_until_stopped()
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
