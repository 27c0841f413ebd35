"""Prints what comes to the audit queue: `python -m messaging.audit`. For development."""

import asyncio
import json
import logging
import signal
import sys
from typing import Any

import aio_pika
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import AMQPError, ChannelNotFoundEntity

from messaging.broker import AUDIT_QUEUE
from messaging.settings import Settings


def line(event_type: str | None, payload: dict[str, Any]) -> str:
    """Return an event in one line."""
    about = payload.get("status") or ", ".join(payload.get("changed_fields", ()))
    return f"audit:    {event_type:<26} {payload.get('aggregate_id')}  {about}"


async def print_from_rabbitmq(url: str, name: str) -> None:
    """Print messages until SIGTERM or SIGINT. A printed message is acknowledged."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with await aio_pika.connect_robust(url) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=100)
        queue = await channel.get_queue(name)  # the worker declares it
        await queue.consume(print_message)
        print(f"audit: waits for messages of {queue.name}", file=sys.stderr, flush=True)
        await stopped.wait()
    print("audit: has stopped", file=sys.stderr)


async def print_message(message: AbstractIncomingMessage) -> None:
    async with message.process():
        print(line(message.type, json.loads(message.body)), flush=True)


def main() -> None:
    settings = Settings.load()
    url, name = settings.rabbitmq_url, f"{settings.rabbitmq_queue_prefix}{AUDIT_QUEUE}"
    if url is None:
        sys.exit("audit: there is no broker to listen to: set RABBITMQ_URL")
    logging.disable()  # what the client library reports is printed below, in a line
    try:
        asyncio.run(print_from_rabbitmq(url, name))
    except ChannelNotFoundEntity:
        remedy = "start the worker with RABBITMQ_AUDIT_QUEUE=true"
        sys.exit(f"audit: there is no queue {name}: {remedy}")
    except (AMQPError, OSError) as error:
        sys.exit(f"audit: the broker cannot be used: {error}")


if __name__ == "__main__":
    main()
