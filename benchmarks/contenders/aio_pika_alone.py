"""aio-pika without an outbox: publishes batch by batch, each when the one before is confirmed.

It has its messages in memory, keeps no order and writes nothing down.
"""

import asyncio
from collections.abc import Sequence

import aio_pika
from aio_pika.abc import AbstractExchange

from benchmarks.contenders.control import (
    EXCHANGE,
    ROUTING_KEY,
    go,
    read_task,
    run_until_stopped,
)
from benchmarks.contenders.messages import EVENT_TYPE, Letter, letters

BATCH = 250


def message(letter: Letter) -> aio_pika.Message:
    """The message of a letter, persistent, with the properties that postroom sets."""
    return aio_pika.Message(
        letter.body,
        headers=letter.headers,
        message_id=letter.message_id,
        type=EVENT_TYPE,
        timestamp=letter.timestamp,
        content_type="application/json",
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
    )


async def deliver(exchange: AbstractExchange, written: Sequence[Letter]) -> None:
    for start in range(0, len(written), BATCH):
        batch = written[start : start + BATCH]
        await asyncio.gather(
            *(exchange.publish(message(each), ROUTING_KEY, mandatory=True) for each in batch)
        )


async def main() -> None:
    task = read_task()
    written = list(letters(task.settings["records"], task.settings["keys"]))
    async with await aio_pika.connect(task.broker) as connection:
        channel = await connection.channel(publisher_confirms=True)
        exchange = await channel.get_exchange(EXCHANGE, ensure=False)
        await go()
        await deliver(exchange, written)
        await run_until_stopped()


if __name__ == "__main__":
    asyncio.run(main())
