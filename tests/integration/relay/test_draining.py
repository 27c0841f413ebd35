"""Workers that an operator drains and resumes, beside others and alone."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta

import pytest
from sqlalchemy import MetaData, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import (
    HealthStatus,
    OutageError,
    Outbox,
    OutboxRecord,
    OutboxRelay,
    UntypedEvent,
)
from postroom.inspection import Inspector, Overview, Worker, WorkerState
from postroom.operations import Operations
from postroom.publishers.base import DELIVERED, Outcome
from postroom.record import ClaimedRecord
from tests.support.rows import save
from tests.support.shop import outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("E16")

NEVER = timedelta(hours=1)


class Gate:
    """A publisher that delivers; `slow` records wait until it opens, and it can be away."""

    max_batch = 1
    max_in_flight = 100

    def __init__(self) -> None:
        self.opened, self.away = asyncio.Event(), False
        self.arrived: list[str] = []

    async def open(self) -> None:
        self._check()

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        self._check()
        for record in records:
            if record.event_type == "slow":
                await self.opened.wait()
            self.arrived.append(record.event_type)
        return [DELIVERED] * len(records)

    async def close(self) -> None: ...

    def _check(self) -> None:
        if self.away:
            raise OutageError("the gate is shut")


class Floor:
    """The database of some workers, and an operator in another process."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        elsewhere = Outbox(MetaData(), record=type("Elsewhere", (OutboxRecord,), {}))
        self.inspector = Inspector(elsewhere, engine)
        self.operations = Operations(elsewhere, engine)
        self._saved = 0

    def relay(self, gate: Gate) -> OutboxRelay:
        """Make a relay that polls only when it is woken, or there is work."""
        return OutboxRelay(
            outbox, self.engine, gate, poll_interval=NEVER, lease=timedelta(seconds=4)
        )

    async def save(self, count: int, event_type: str = "quick") -> None:
        """Commit records of as many keys, in as many partitions as there are."""
        numbers = range(self._saved, self._saved + count)
        self._saved += count
        events = [
            UntypedEvent(
                event_type=event_type, aggregate_type="order", aggregate_id=each, payload={}
            )
            for each in numbers
        ]
        await save(self.engine, *events)

    async def newcomer(self, known: Sequence[str] = ()) -> str:
        """Wait for a worker that has reported, and return its name."""

        async def found() -> list[str]:
            there = await self.inspector.workers()
            return [each.name for each in there if each.report and each.name not in known]

        await eventually(found)
        [name] = await found()
        return name

    async def overview(self) -> Overview:
        return await self.inspector.overview()

    async def worker(self, name: str) -> Worker:
        [worker] = [each for each in await self.inspector.workers() if each.name == name]
        return worker

    async def becomes(self, name: str, state: WorkerState) -> None:
        """Wait until a worker is in a state."""

        async def is_so() -> bool:
            return (await self.worker(name)).state is state

        await eventually(is_so, state)

    async def rows(self) -> int:
        """Count the workers in the table."""
        async with self.engine.connect() as connection:
            count = select(func.count()).select_from(outbox.tables.workers)
            return int((await connection.execute(count)).scalar_one())


@pytest.fixture
def floor(database: AsyncEngine) -> Floor:
    return Floor(database)


async def test_a_drained_worker_finishes_and_another_one_delivers_everything(floor: Floor) -> None:
    first, second = Gate(), Gate()
    await floor.save(1, "slow")
    async with floor.relay(first).running():
        ann = await floor.newcomer()
        await floor.becomes(ann, WorkerState.WORKING)
        async with floor.relay(second).running():
            await floor.newcomer([ann])
            assert await floor.operations.drain(ann)

            async def has_one_left() -> bool:
                return len((await floor.worker(ann)).partitions) == 1

            await eventually(has_one_left)
            assert (await floor.worker(ann)).state is WorkerState.DRAINING
            await floor.save(200)
            held = len(range(200)) - await in_partition(floor, ann)
            await eventually(lambda: len(second.arrived) >= held)
            assert first.arrived == []
            first.opened.set()
            await eventually(lambda: len(second.arrived) == 200)
            assert first.arrived == ["slow"]
            await floor.becomes(ann, WorkerState.DRAINED)
            overview = await floor.overview()
            assert (overview.pending, overview.healthy) == (0, True)
    assert await floor.rows() == 0


async def in_partition(floor: Floor, worker: str) -> int:
    """Count the records that wait in the partitions of a worker, but for the slow one."""
    records, leases = outbox.tables.records, outbox.tables.leases
    theirs = select(leases.c.partition).where(leases.c.worker == worker)
    there = records.c.partition.in_(theirs), records.c.event_type != "slow"
    async with floor.engine.connect() as connection:
        count = select(func.count()).select_from(records).where(*there)
        return int((await connection.execute(count)).scalar_one())


async def test_a_resumed_worker_shares_the_work_again(engine: AsyncEngine) -> None:
    floor, first, second = Floor(engine), Gate(), Gate()
    async with floor.relay(first).running():
        ann = await floor.newcomer()
        async with floor.relay(second).running():
            await floor.newcomer([ann])
            await floor.operations.drain(ann)
            await floor.becomes(ann, WorkerState.DRAINED)
            await floor.save(100)
            await eventually(lambda: len(second.arrived) == 100)
            assert first.arrived == []
            assert await floor.operations.undrain(ann)

            async def both_have_delivered() -> bool:
                await floor.save(50)
                return bool(first.arrived) and len(second.arrived) > 100

            await eventually(both_have_delivered)


async def test_an_outage_of_its_publisher_leaves_a_worker_drained(floor: Floor) -> None:
    gate = Gate()
    relay = floor.relay(gate)
    async with relay.running():
        ann = await floor.newcomer()
        gate.away = True
        await floor.save(3)
        await eventually(lambda: relay.health.status is HealthStatus.DEGRADED)
        assert await floor.operations.drain(ann)
        gate.away = False
        await eventually(lambda: relay.health.status is HealthStatus.OK)
        worker = await floor.worker(ann)
        assert (worker.state, gate.arrived) == (WorkerState.DRAINED, [])
        assert (await floor.overview()).ready == 3
        assert await floor.operations.undrain(ann)
        await eventually(lambda: len(gate.arrived) == 3)


async def test_a_drained_worker_that_is_stopped_leaves_no_row(floor: Floor) -> None:
    await floor.save(1)
    async with floor.relay(Gate()).running():
        ann = await floor.newcomer()
        await floor.operations.drain(ann)
        await floor.becomes(ann, WorkerState.DRAINED)
    assert await floor.rows() == 0


async def test_a_worker_that_waits_an_hour_for_its_next_poll_notices_at_once(
    engine: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "postroom.relay")
    floor = Floor(engine)

    def said(part: str) -> bool:
        return any(part in each.message for each in caplog.records)

    async with floor.relay(Gate()).running():
        ann = await floor.newcomer()

        async def listens() -> bool:
            report = (await floor.worker(ann)).report
            return report is not None and report.listener == "up"

        await eventually(listens)
        await floor.operations.drain(ann)
        await eventually(lambda: said("an operator drains this worker"))
        await floor.operations.undrain(ann)
        await eventually(lambda: said("this worker is resumed"))
