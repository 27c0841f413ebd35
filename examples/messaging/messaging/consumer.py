"""Consumes the processing queues of RabbitMQ: `python -m messaging.consumer`."""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Sequence
from itertools import cycle
from typing import Any, Final
from urllib.parse import urlsplit

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError, ChannelNotFoundEntity
from sqlalchemy.ext.asyncio import async_sessionmaker

from messaging.attempts import Verdict, attempt, pause
from messaging.broker import PROCESSING
from messaging.database import make_engine
from messaging.models import outbox
from messaging.processing import Processor
from messaging.settings import Settings
from messaging.telemetry import Telemetry

log = logging.getLogger(__name__)

RECONNECT_PAUSE: Final = 2.0
"""Seconds until the next connection, when one could not be made or was lost."""
CONNECT_TIMEOUT: Final = 10.0
TROUBLE: Final = (AMQPError, ChannelInvalidStateError, OSError, TimeoutError)
"""What aio-pika raises when the broker cannot be used."""


class Consumer:
    """Consumes the processing queues until it is stopped, over one connection after the other."""

    def __init__(
        self,
        url: str,
        queues: Sequence[str],
        processor: Processor,
        telemetry: Telemetry,
        *,
        prefetch: int,
        max_attempts: int,
    ) -> None:
        self._urls, self._queues = cycle(host_urls(url)), queues
        self._processor, self._telemetry = processor, telemetry
        self._prefetch, self._max_attempts = prefetch, max_attempts
        self._stopped = asyncio.Event()
        self._in_flight: set[asyncio.Task[Any]] = set()

    def stop(self) -> None:
        """Take no more messages. `run` ends when those in flight are done."""
        self._stopped.set()

    async def run(self) -> None:
        """Consume until `stop`; connect again whenever the connection is lost."""
        while not self._stopped.is_set():
            try:
                await self._consume(next(self._urls))
            except ChannelNotFoundEntity as error:
                log.warning("%s. The worker declares the queues: is it running?", error)
            except TROUBLE as error:
                log.warning("RabbitMQ cannot be used: %r", error)
            await pause(RECONNECT_PAUSE, self._stopped)

    async def _consume(self, url: str) -> None:
        """Consume over one connection, until it is lost or the consumer is stopped."""
        async with await aio_pika.connect(url, timeout=CONNECT_TIMEOUT) as connection:
            channel = await connection.channel(publisher_confirms=False)
            await channel.set_qos(prefetch_count=self._prefetch)
            lost = await _loss_of(channel)
            queues = [await channel.get_queue(name) for name in self._queues]
            tags = [await queue.consume(self._receive) for queue in queues]
            log.info("consumes %s", ", ".join(self._queues))
            await _first(self._stopped, lost)
            if lost.is_set():
                log.warning("the connection to RabbitMQ is lost, or a queue was deleted")
            else:
                for queue, tag in zip(queues, tags, strict=True):
                    await queue.cancel(tag)
            while self._in_flight:
                await asyncio.wait(self._in_flight)

    async def _receive(self, message: AbstractIncomingMessage) -> None:
        """Process a message, then acknowledge it. aio-pika runs this as a task of its own."""
        task = asyncio.current_task()
        assert task is not None
        self._in_flight.add(task)
        try:
            await _settle(message, await self._process(message))
        except TROUBLE as error:  # the broker sends the message again, and the inbox drops it
            log.warning("%s could not be acknowledged: %r", message.message_id, error)
        finally:
            self._in_flight.discard(task)

    async def _process(self, message: AbstractIncomingMessage) -> Verdict:
        event_type = message.type or message.routing_key or ""
        what = f"{event_type} {message.message_id}"
        payload = _payload(message.body)
        with self._telemetry.processing(event_type, message.headers):
            return await attempt(
                lambda: self._processor.process(message.message_id, event_type, payload),
                what,
                max_attempts=self._max_attempts,
                stopped=self._stopped,
            )


async def _settle(message: AbstractIncomingMessage, verdict: Verdict) -> None:
    """Acknowledge, requeue or reject a message."""
    match verdict:
        case Verdict.ACKNOWLEDGE:
            await message.ack()
        case Verdict.REQUEUE:
            await message.nack(requeue=True)
        case Verdict.REJECT:
            await message.reject(requeue=False)


async def _loss_of(channel: AbstractChannel) -> asyncio.Event:
    """Return what is set when the channel closes, or the broker ends a consumer of it."""
    lost = asyncio.Event()
    channel.close_callbacks.add(lambda *_: lost.set())
    underlay: Any = await channel.get_underlay_channel()
    underlay.on_consumer_cancel_callbacks.add(lambda _: lost.set())
    return lost


async def _first(*events: asyncio.Event) -> None:
    """Wait until one of these is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def _payload(body: bytes) -> Any:
    """Return what the body holds, or None if it is not JSON."""
    try:
        return json.loads(body)
    except ValueError:
        return None


def host_urls(url: str) -> list[str]:
    """Return a URL for each host of `amqp://user:password@mq1,mq2/`: aio-pika takes one."""
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    return [parts._replace(netloc=f"{login}{at}{host}").geturl() for host in hosts.split(",")]


async def consume(settings: Settings, url: str) -> None:
    """Consume until SIGTERM or SIGINT."""
    engine, telemetry = make_engine(settings.database_url), Telemetry(settings)
    telemetry.trace(outbox)
    consumer = Consumer(
        url,
        [f"{settings.rabbitmq_queue_prefix}{name}" for name in PROCESSING],
        Processor(async_sessionmaker(engine, expire_on_commit=False)),
        telemetry,
        prefetch=settings.consumer_prefetch,
        max_attempts=settings.consumer_max_attempts,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, consumer.stop)
    notifier = outbox.notify_workers(engine)  # what processing emits wakes the worker
    try:
        await consumer.run()
    finally:
        await asyncio.to_thread(notifier.close)
        await asyncio.to_thread(telemetry.close)
        await engine.dispose()
    log.info("has stopped")


def main() -> None:
    settings = Settings.load()
    if settings.rabbitmq_url is None:
        sys.exit("consumer: there is no broker to consume from: set RABBITMQ_URL")
    logging.basicConfig(level=logging.INFO, format="%(levelname)s consumer: %(message)s")
    for name in ("aio_pika", "aiormq"):  # what they report is logged here, in a line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    asyncio.run(consume(settings, settings.rabbitmq_url))


if __name__ == "__main__":
    main()
