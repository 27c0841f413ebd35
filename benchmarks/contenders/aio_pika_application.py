"""Publish after commit: SQLAlchemy commits, then aio-pika publishes as its README shows.

`connect_robust` and a channel with the default settings: confirms on, `mandatory` on, and
`on_return_raises` off, so that a returned message is an answer and not an error.
"""

import asyncio
from collections.abc import Callable, Sequence
from json import dumps

import aio_pika
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from benchmarks.contenders.control import EXCHANGE, ROUTING_KEY, read_task
from benchmarks.contenders.orders import INSERT_ORDER, Event, serve


async def main() -> None:
    task = read_task()
    engine = create_async_engine(task.database.replace("postgresql:", "postgresql+asyncpg:"))
    connection = await aio_pika.connect_robust(task.broker)
    channel = await connection.channel()
    exchange = await channel.get_exchange(EXCHANGE)

    async def place(events: Sequence[Event], committed: Callable[[], None]) -> None:
        async with AsyncSession(engine) as session:
            for event in events:
                await session.execute(text(INSERT_ORDER.format(event.number)))
            await session.commit()
        committed()
        for event in events:
            message = aio_pika.Message(
                dumps(event.payload).encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT
            )
            await exchange.publish(message, ROUTING_KEY)

    await serve(task, place)


if __name__ == "__main__":
    asyncio.run(main())
