"""What a fault is played on: one contender with a database, a vhost and processes of its own."""

import asyncio
from collections.abc import AsyncIterator
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How many events there are, of how many keys; the rest are seconds.

    - `outage`: that the broker cannot be reached
    - `cold`: nothing has been delivered before the outage
    - `full_for`: from the first refusal until the queue is emptied. Contenders that retry do so
      after about 1 s: with less, later events come while the first one of their key waits
    - `after_outage`, `otherwise`: to wait for what has not arrived
    """

    events: int = 100
    keys: int = 10
    outage: float = 180.0
    cold: bool = False
    full_for: float = 0.4
    after_outage: float = 180.0
    otherwise: float = 45.0


@dataclass(kw_only=True)
class Stage:
    """A contender, its services and the consumer of its events."""

    compared: Compared
    settings: Settings
    database: str
    gate: Gate
    consumer: Consumer
    log: Path
    processes: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def application(self, *, bounded: bool = False) -> Worker:
        """Start the application, and wait until it takes orders."""
        settings = {"keys": self.settings.keys, "bound": LIMIT if bounded else 0}
        return await self._begin(await self._start(self.compared.application, settings))

    async def worker(self) -> None:
        """Start a worker, if the contender has one, and wait until it is connected."""
        if self.has_relay:
            await self._begin(await self._start_worker())

    async def workers_at_once(self, count: int) -> None:
        """Start workers, and have all of them begin at the same moment."""
        ready = [await self._start_worker() for _ in range(count)]
        await asyncio.gather(*(self._begin(each) for each in ready))

    @property
    def has_relay(self) -> bool:
        """Whether a process takes the events from a table to the queue."""
        return bool(self.compared.worker) and not self.compared.queue

    async def _start_worker(self) -> Worker:
        return await self._start(self.compared.worker, dict(self.compared.settings))

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
    compared: Compared, broker: str, log: Path, settings: Settings
) -> AsyncIterator[Stage]:
    """Set the stage for one fault."""
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
                settings=settings,
                database=database,
                gate=gate,
                consumer=receiver,
                log=log,
            )
            async with set_up.processes:
                yield set_up
    finally:
        await asyncio.to_thread(made.__exit__, None, None, None)
