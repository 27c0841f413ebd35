"""What consumes in the process of the API, if there is no RabbitMQ."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from postroom import MemoryPublisher, MemoryQueue, Message

from messaging.attempts import Verdict, attempt
from messaging.audit import line
from messaging.broker import AUDIT_QUEUE, PROCESSING
from messaging.processing import Processor
from messaging.telemetry import Telemetry


class MemoryConsumer:
    """Consumes the queues of a broker in this process; a process that is killed loses them."""

    def __init__(
        self,
        publisher: MemoryPublisher,
        processor: Processor,
        telemetry: Telemetry,
        *,
        max_attempts: int,
    ) -> None:
        self._processor, self._telemetry = processor, telemetry
        self._max_attempts = max_attempts
        self._queues = {name: publisher.queue(name) for name in (AUDIT_QUEUE, *PROCESSING)}
        self._stopped = asyncio.Event()
        self._busy = 0
        self._done = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Consume within the block; at its end, finish what is in the queues."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._consume(queue, self._action(name)))
                for name, queue in self._queues.items()
            ]
            yield
            self._stopped.set()
            while self._busy or any(len(queue) for queue in self._queues.values()):
                self._done.clear()
                await self._done.wait()
            for task in tasks:
                task.cancel()

    def _action(self, queue: str) -> Callable[[Message], Awaitable[None]]:
        return self._print if queue == AUDIT_QUEUE else self._process

    async def _consume(self, queue: MemoryQueue, act: Callable[[Message], Awaitable[None]]) -> None:
        while True:
            message = await queue.get()
            self._busy += 1
            await act(message)
            self._busy -= 1
            self._done.set()

    async def _print(self, message: Message) -> None:
        print(line(message.event_type, message.payload), flush=True)

    async def _process(self, message: Message) -> None:
        verdict = Verdict.REQUEUE
        while verdict is Verdict.REQUEUE:
            with self._telemetry.processing(message.event_type, message.headers):
                verdict = await attempt(
                    lambda: self._processor.process(
                        str(message.id), message.event_type, message.payload
                    ),
                    f"{message.event_type} {message.id}",
                    max_attempts=self._max_attempts,
                    stopped=self._stopped,
                )
            if self._stopped.is_set():
                return
