"""Several worker processes on one outbox, through refusals, kills and freezes."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRecord
from tests.chaos.fleet import Fleet, Worker
from tests.chaos.ledger import Entry, Ledger, out_of_order, repeats
from tests.chaos.outbox import TABLES, blocked_keys, leases, records_of_keys, rows, save, settled
from tests.support.waiting import FULL, eventually, happens

KEYS = 50
RECORDS = 20_000 if FULL else 1_000
BATCH = 20
KILLS = 60 if FULL else 3
"""The most; after so many the workers are left in peace, to come to an end."""
EVERY = 1.0 if FULL else 0.25
"""Seconds between two kills."""
MOST_UNSETTLED = 100 + BATCH
"""What a worker has in flight, or answered and not yet settled: no more than that is repeated."""


def many_records() -> list[OutboxRecord]:
    return records_of_keys(KEYS, RECORDS // KEYS)


def ids(records: Sequence[OutboxRecord]) -> set[str]:
    return {str(record.id) for record in records}


async def all_ready(*workers: Worker) -> None:
    await eventually(lambda: all(worker.ready for worker in workers), "all are ready")


@pytest.mark.requirement("C16", "E1")
async def test_four_workers_deliver_all_once_and_in_order_through_refusals(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet
) -> None:
    records = many_records()
    fleet.configure(refused_percent=5, retry=0.05)

    await all_ready(*[fleet.start() for _ in range(4)])
    await save(engine, records)
    await eventually(lambda: len(ledger.delivered()) >= len(records), "everything is delivered")
    await eventually(lambda: settled(engine), "everything is settled")

    assert ledger.records() == ids(records)
    assert repeats(ledger.delivered()) == []
    assert out_of_order(ledger.delivered()) == []
    assert await blocked_keys(engine) == []
    assert len({entry.worker for entry in ledger.delivered()}) > 1


class KillsWorkers:
    """Kills one worker after the other, and starts others; freezes one on the way."""

    def __init__(self, fleet: Fleet, engine: AsyncEngine, ledger: Ledger, count: int) -> None:
        self.fleet = fleet
        self.engine = engine
        self.frozen: Worker | None = None
        self.killed: list[Worker] = []
        self._ledger = ledger
        self._count = count
        self._random = random.Random(1)

    @property
    def frozen_name(self) -> str | None:
        return self.frozen.name if self.frozen else None

    async def work(self) -> None:
        while len(self.killed) < KILLS and not await happens(self._all_delivered, within=EVERY):
            ready = [each for each in self.fleet.alive if each.ready]
            able = [each for each in ready if await self._leases(each)]
            if len(able) < 2:
                continue  # the new ones take their time, on a busy machine
            victim = self._random.choice(able)
            if self.frozen is None:
                await self._freeze(victim)
            else:
                victim.kill()
                self.killed.append(victim)
                self.fleet.start()

    async def _freeze(self, victim: Worker) -> None:
        """Let a worker sleep until its leases are over and somebody has taken what is in them."""
        self.frozen = victim
        victim.freeze()
        before = await self._leases(victim)
        await eventually(lambda: self._expired(victim, before), "its leases are over")
        victim.thaw()

    async def _expired(self, worker: Worker, before: int) -> bool:
        table = TABLES.leases
        mine = table.c.worker.contains(f":{worker.pid}:")
        valid = await leases(self.engine, mine, table.c.leased_until >= func.now())
        taken = not before or await self._leases(worker) < before
        return not valid and (taken or self._all_delivered())

    async def _leases(self, worker: Worker) -> int:
        mine = TABLES.leases.c.worker.contains(f":{worker.pid}:")
        return len(await leases(self.engine, mine))

    def _all_delivered(self) -> bool:
        return len(self._ledger.records()) >= self._count

    def answers_for(self, before: Entry, again: Entry) -> str | None:
        """Name the worker whose end, or sleep, excuses a repeat."""
        if before.worker in {each.name for each in self.killed}:
            return before.worker
        return self.frozen_name if self.frozen_name in (before.worker, again.worker) else None


async def settled_before_repeated(
    engine: AsyncEngine, ledger: Ledger, killer: KillsWorkers
) -> list[Entry]:
    """Give the repeats, without those of the frozen, of what was no longer on its way."""
    settled_at = {str(row.id): row.published_at for row in await rows(engine)}
    return [
        again
        for before, again in repeats(ledger.delivered())
        if killer.frozen_name not in (before.worker, again.worker)
        and again.at > settled_at[again.record]
    ]


@pytest.mark.requirement("C16", "E1")
async def test_nothing_is_lost_while_workers_are_killed_and_frozen(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet
) -> None:
    records = many_records()
    await save(engine, records)
    fleet.configure(refused_percent=5, lease=1.5, latency=0.2, batch_size=BATCH, retry=0.05)

    await all_ready(*[fleet.start() for _ in range(4)])
    killer = KillsWorkers(fleet, engine, ledger, len(records))
    await killer.work()
    await eventually(lambda: len(ledger.records()) >= len(records), "everything is delivered")
    await eventually(lambda: settled(engine), "everything is settled")

    assert ledger.records() == ids(records)
    assert out_of_order(ledger.delivered()) == []
    assert await blocked_keys(engine) == []
    assert await settled_before_repeated(engine, ledger, killer) == []
    blame = Counter(killer.answers_for(*pair) for pair in repeats(ledger.delivered()))
    assert None not in blame
    assert all(count <= MOST_UNSETTLED for count in blame.values())
    assert len(killer.killed) >= 2


@pytest.mark.extended
@pytest.mark.requirement("C17", "E1")
async def test_workers_resume_by_themselves_after_an_outage_that_costs_no_attempt(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet, tmp_path: Path
) -> None:
    outage = tmp_path / "outage"
    records = records_of_keys(20, 20)
    await save(engine, records)
    workers = [fleet.start(outage=str(outage), latency=0.05) for _ in range(2)]
    await eventually(lambda: len(ledger.delivered()) >= 40, "deliveries flow")

    outage.touch()
    await eventually(lambda: idle(engine), "both have given their leases back")
    assert len(ledger.delivered()) < len(records)
    outage.unlink()

    await eventually(lambda: len(ledger.delivered()) == len(records), "everything is delivered")
    assert not any(worker.dead for worker in workers)
    assert {row.retry_count for row in await rows(engine)} == {0}
    assert out_of_order(ledger.delivered()) == []


async def idle(engine: AsyncEngine) -> bool:
    return not await leases(engine)
