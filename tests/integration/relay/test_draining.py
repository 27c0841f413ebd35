"""Workers that an operator drains and resumes, beside others and alone."""

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
from tests.support.gated_publisher import GatedPublisher
from tests.support.rows import save
from tests.support.shop import outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("E16")

NEVER = timedelta(hours=1)


class Workers:
    """The database of some workers, and an operator in another process."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        elsewhere = Outbox(MetaData(), record=type("Elsewhere", (OutboxRecord,), {}))
        self.inspector = Inspector(elsewhere, engine)
        self.operations = Operations(elsewhere, engine)
        self._saved = 0

    def relay(self, publisher: GatedPublisher) -> OutboxRelay:
        """Make a relay that polls only when it is woken, or there is work."""
        return OutboxRelay(
            outbox, self.engine, publisher, poll_interval=NEVER, lease=timedelta(seconds=4)
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

    async def have_settled_everything(self) -> bool:
        return (await self.overview()).pending == 0

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
def workers(database: AsyncEngine) -> Workers:
    return Workers(database)


@pytest.mark.parametrize(
    "database", ["postgresql", pytest.param("sqlite", marks=pytest.mark.extended)], indirect=True
)
async def test_a_drained_worker_finishes_and_another_one_delivers_everything(
    workers: Workers,
) -> None:
    first, second = GatedPublisher("slow"), GatedPublisher()
    await workers.save(1, "slow")
    async with workers.relay(first).running():
        ann = await workers.newcomer()
        await workers.becomes(ann, WorkerState.WORKING)
        async with workers.relay(second).running():
            await workers.newcomer([ann])
            assert await workers.operations.drain(ann)

            async def has_one_left() -> bool:
                return len((await workers.worker(ann)).partitions) == 1

            await eventually(has_one_left)
            assert (await workers.worker(ann)).state is WorkerState.DRAINING
            await workers.save(200)
            held = len(range(200)) - await in_partition(workers, ann)
            await eventually(lambda: len(second.arrived) >= held)
            assert first.arrived == []
            first.gate.set()
            await eventually(lambda: len(second.arrived) == 200)
            assert first.arrived == ["slow"]
            await workers.becomes(ann, WorkerState.DRAINED)
            await eventually(workers.have_settled_everything)
            assert (await workers.overview()).healthy
    assert await workers.rows() == 0


async def in_partition(workers: Workers, worker: str) -> int:
    """Count the records that wait in the partitions of a worker, but for the slow one."""
    records, leases = outbox.tables.records, outbox.tables.leases
    theirs = select(leases.c.partition).where(leases.c.worker == worker)
    there = records.c.partition.in_(theirs), records.c.event_type != "slow"
    async with workers.engine.connect() as connection:
        count = select(func.count()).select_from(records).where(*there)
        return int((await connection.execute(count)).scalar_one())


@pytest.mark.extended
async def test_a_resumed_worker_shares_the_work_again(engine: AsyncEngine) -> None:
    workers, first, second = Workers(engine), GatedPublisher(), GatedPublisher()
    async with workers.relay(first).running():
        ann = await workers.newcomer()
        async with workers.relay(second).running():
            await workers.newcomer([ann])
            await workers.operations.drain(ann)
            await workers.becomes(ann, WorkerState.DRAINED)
            await workers.save(100)
            await eventually(lambda: len(second.arrived) == 100)
            assert first.arrived == []
            assert await workers.operations.undrain(ann)

            async def both_have_delivered() -> bool:
                await workers.save(50)
                return bool(first.arrived) and len(second.arrived) > 100

            await eventually(both_have_delivered)


@pytest.mark.extended
async def test_an_outage_of_its_publisher_leaves_a_worker_drained(workers: Workers) -> None:
    publisher = GatedPublisher()
    relay = workers.relay(publisher)
    async with relay.running():
        ann = await workers.newcomer()
        publisher.away = publisher.shut = OutageError("it is shut")
        await workers.save(3)
        await eventually(lambda: relay.health.status is HealthStatus.DEGRADED)
        assert await workers.operations.drain(ann)
        publisher.away = publisher.shut = None
        await eventually(lambda: relay.health.status is HealthStatus.OK)
        worker = await workers.worker(ann)
        assert (worker.state, publisher.arrived) == (WorkerState.DRAINED, [])
        assert (await workers.overview()).ready == 3
        assert await workers.operations.undrain(ann)
        await eventually(lambda: len(publisher.arrived) == 3)


async def test_a_worker_that_waits_an_hour_for_its_next_poll_notices_at_once(
    engine: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "postroom.relay")
    workers = Workers(engine)

    def said(part: str) -> bool:
        return any(part in each.message for each in caplog.records)

    async with workers.relay(GatedPublisher()).running():
        ann = await workers.newcomer()

        async def listens() -> bool:
            report = (await workers.worker(ann)).report
            return report is not None and report.listener == "up"

        await eventually(listens)
        await workers.operations.drain(ann)
        await eventually(lambda: said("an operator drains this worker"))
        await workers.operations.undrain(ann)
        await eventually(lambda: said("this worker is resumed"))
