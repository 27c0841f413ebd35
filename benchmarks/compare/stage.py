"""What a fault is played on: one contender with a database, a vhost and processes of its own."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.compare.compared import Compared
from benchmarks.compare.consumer import LIMIT, Consumer, consumer
from benchmarks.compare.gate import Gate, gate_to
from benchmarks.contenders.orders import CREATE_ORDERS
from benchmarks.measure import bench_database
from benchmarks.worker import Services, Worker, create_table, running


@dataclass(kw_only=True)
class Stage:
    """A contender, its services and the consumer of its events."""

    compared: Compared
    events: int
    keys: int
    database: str
    gate: Gate
    consumer: Consumer
    log: Path
    processes: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def application(self, *, bounded: bool = False) -> Worker:
        """Start the application, and wait until it takes orders."""
        settings = {"keys": self.keys, "bound": LIMIT if bounded else 0}
        return await self._begin(await self._start(self.compared.application, settings))

    async def worker(self) -> None:
        """Start a worker, if the contender has one, and wait until it is connected."""
        if self.has_relay:
            await self._begin(await self._start(self.compared.worker, {}))

    async def workers_at_once(self, count: int) -> None:
        """Start workers, and have all of them begin at the same moment."""
        ready = [await self._start(self.compared.worker, {}) for _ in range(count)]
        await asyncio.gather(*(self._begin(each) for each in ready))

    @property
    def has_relay(self) -> bool:
        """Whether a process takes the events from a table to the queue."""
        return bool(self.compared.worker) and not self.compared.queue

    async def _start(self, module: str, settings: dict[str, Any]) -> Worker:
        services = Services(database=self.database, broker=self.gate.url)
        program = self.compared.program(module)
        return await self.processes.enter_async_context(
            running(program, services, settings, self.log)
        )

    async def _begin(self, worker: Worker) -> Worker:
        await worker.go()
        await worker.says("running")
        return worker


@asynccontextmanager
async def stage(
    compared: Compared, broker: str, log: Path, size: Sequence[int]
) -> AsyncIterator[Stage]:
    """Set the stage for one fault; `size` is the number of events and of keys."""
    made = bench_database()
    database = (await asyncio.to_thread(made.__enter__)).replace("+asyncpg", "")
    try:
        connection = await asyncpg.connect(database)
        await connection.execute(CREATE_ORDERS)
        await connection.close()
        if compared.creates:
            program = compared.program(compared.creates)
            await create_table(program, Services(database=database, broker=broker))
        queue = compared.queue
        async with consumer(broker, queue) as receiver, gate_to(broker) as gate:
            set_up = Stage(
                compared=compared,
                events=size[0],
                keys=size[1],
                database=database,
                gate=gate,
                consumer=receiver,
                log=log,
            )
            async with set_up.processes:
                yield set_up
    finally:
        await asyncio.to_thread(made.__exit__, None, None, None)
