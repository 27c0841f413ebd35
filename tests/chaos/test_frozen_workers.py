"""A worker that sleeps past its lease, and wakes up in the middle of a delivery."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRecord, Status
from tests.chaos.fleet import Fleet, Worker
from tests.chaos.ledger import Ledger, What, out_of_order
from tests.chaos.outbox import blocked_keys, records_of, row_of, save
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended

LEASE = 1.0


class Sleeper:
    """A worker that is frozen while it delivers a record, and what happens then."""

    def __init__(self, fleet: Fleet, ledger: Ledger, release: Path) -> None:
        self._fleet = fleet
        self._ledger = ledger
        self._release = release

    async def falls_asleep_over(self, record: OutboxRecord, *, refuses: bool) -> Worker:
        name = str(record.id)
        worker = self._fleet.start(
            lease=LEASE,
            hold=(name,),
            release=str(self._release),
            refuse=(name,) if refuses else (),
        )
        started = self.reached(What.STARTED, record, worker)
        await eventually(started, "the delivery has started")
        worker.freeze()
        return worker

    async def wakes_up(self, worker: Worker, record: OutboxRecord, ends_as: What) -> None:
        """Let it finish the delivery, write down what it wants to, and end."""
        self._release.touch()
        worker.thaw()
        await eventually(self.reached(ends_as, record, worker), "the sleeper has finished")
        worker.ask_to_stop()
        await eventually(lambda: worker.dead, "the sleeper has ended")
        assert worker.process.returncode == 0, worker.log.read_text()

    def reached(self, what: What, record: OutboxRecord, worker: Worker) -> Callable[[], bool]:
        return lambda: self._ledger.has(what, record.id, worker.name)


@pytest.fixture
def sleeper(fleet: Fleet, ledger: Ledger, tmp_path: Path) -> Sleeper:
    return Sleeper(fleet, ledger, tmp_path / "release")


@pytest.mark.requirement("E1")
async def test_a_zombie_writes_no_retry_and_no_block_for_what_another_has_delivered(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet, sleeper: Sleeper
) -> None:
    first, _, third = records = records_of("one", 3)
    await save(engine, records)
    zombie = await sleeper.falls_asleep_over(first, refuses=True)
    heir = fleet.start(lease=LEASE)
    await eventually(sleeper.reached(What.DELIVERED, third, heir), "another has delivered all")

    async def written() -> bool:
        return bool((await row_of(engine, first)).status == Status.PUBLISHED)

    await eventually(written, "that is written")
    before = await row_of(engine, first)

    await sleeper.wakes_up(zombie, first, What.REFUSED)

    assert await row_of(engine, first) == before
    assert await blocked_keys(engine) == []
    assert ledger.positions("one") == sorted(ledger.positions("one"))


@pytest.mark.requirement("E1", "C16")
async def test_what_a_zombie_delivers_lets_the_followers_go_that_another_has_held_back(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet, sleeper: Sleeper
) -> None:
    first, _, third = records = records_of("one", 3)
    await save(engine, records)
    zombie = await sleeper.falls_asleep_over(first, refuses=False)
    heir = fleet.start(lease=LEASE, refuse=(str(first.id),), retry=3600.0)
    await eventually(sleeper.reached(What.REFUSED, first, heir), "another has tried in vain")

    async def parked() -> bool:
        return not (await row_of(engine, third)).ready

    await eventually(parked, "the followers are held back")
    await sleeper.wakes_up(zombie, first, What.DELIVERED)

    assert (await row_of(engine, first)).status == Status.PUBLISHED
    await eventually(sleeper.reached(What.DELIVERED, third, heir), "the followers left")
    assert out_of_order(ledger.delivered()) == []
    assert len(ledger.delivered()) == len(records)
