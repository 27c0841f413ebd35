"""Operators retry, skip, discard, pause, resume and replay while worker processes deliver."""

import asyncio
import itertools
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import OutboxRecord, Status
from postroom.operations import Operations
from postroom.record import Key
from tests.chaos.fleet import Fleet, fleet_of
from tests.chaos.ledger import Entry, Ledger, out_of_order
from tests.chaos.outbox import KIND, TABLES, blocked_keys, records_of, records_of_keys, rows, save
from tests.chaos.worker import WorkerOptions
from tests.support.shop import outbox
from tests.support.waiting import FULL, eventually

pytestmark = pytest.mark.extended

KEYS = 30
RECORDS = 9_000 if FULL else 750
FEW = 600 if FULL else 240
"""Records on SQLite, where every writer waits for the others."""
BATCH = 50
CHOSEN = 10


class Operators:
    """Several at once, who take records and keys at random, until they are stopped."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.skipped: set[UUID] = set()
        self.discarded: set[UUID] = set()
        self._engine = engine
        self._operations = Operations(outbox, engine)
        self._random = random.Random(1)
        self._decisions = itertools.cycle(("discard", "skip", "retry"))
        self._stopped = asyncio.Event()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator["asyncio.Task[None]"]:
        """Have them work beside the block; what one of them raises comes out at its end."""
        work = asyncio.create_task(self._work())
        try:
            yield work
            self._stopped.set()
            await work
        finally:
            work.cancel()
            await asyncio.wait([work])

    @property
    def have_decided(self) -> bool:
        """Whether they have discarded records, and skipped others."""
        return bool(self.discarded and self.skipped)

    async def retry_all(self) -> bool:
        """Retry what failed, as a refusal may be written late; tell whether all is published."""
        await self._operations.retry(await self._ids(Status.FAILED))
        return not await rows(self._engine, TABLES.records.c.status != Status.PUBLISHED)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            for job in (self._decide, self._replay, self._replay, self._pause):
                group.create_task(self._repeat(job))

    async def _repeat(self, job: Callable[[], Awaitable[object]]) -> None:
        while not self._stopped.is_set():
            await job()
            await asyncio.sleep(0.02)  # operators are no denial of service

    async def _decide(self) -> None:
        """Retry, skip or discard failed records."""
        failed = [each for each in await self._ids(Status.FAILED) if each not in self.skipped]
        chosen = self._random.sample(failed, min(CHOSEN, len(failed)))
        match next(self._decisions) if chosen else "wait":
            case "retry":
                changed = await self._operations.retry(chosen)
            case "skip":
                self.skipped.update(chosen)
                changed = await self._operations.skip(chosen)
            case "discard":
                self.discarded.update(chosen)
                changed = await self._operations.discard(chosen)
            case _:
                changed = 0
        assert changed == len(chosen)

    async def _replay(self) -> None:
        published = await self._ids(Status.PUBLISHED)
        chosen = self._random.sample(published, min(CHOSEN, len(published)))
        await self._operations.replay(chosen)

    async def _pause(self) -> None:
        key = Key(KIND, f"k{self._random.randrange(KEYS)}")
        everything: dict[str, Any] = {}
        choices = (everything, {"event_type": "thing.happened"}, {"key": key})
        scope = self._random.choices(choices, weights=(1, 1, 8))[0]
        assert await self._operations.pause(**scope)
        await asyncio.sleep(0.05)
        assert await self._operations.resume(**scope)

    async def _ids(self, status: Status) -> list[UUID]:
        return [row.id for row in await rows(self._engine, TABLES.records.c.status == status)]


async def audited_replays(engine: AsyncEngine) -> list[tuple[str, str]]:
    """Give the records of each replay, as the audit lists them."""
    audit = TABLES.audit
    async with engine.connect() as connection:
        found = await connection.execute(select(audit).where(audit.c.action == "replay"))
        return sorted(
            (each, entry.details["replay"]) for entry in found for each in entry.details["ids"]
        )


def out_of_order_in_replays(replayed: Sequence[Entry]) -> list[Entry]:
    by_replay: dict[str, list[Entry]] = defaultdict(list)
    for entry in replayed:
        by_replay[entry.replay].append(entry)
    return [entry for one in by_replay.values() for entry in out_of_order(one)]


async def under_load(
    engine: AsyncEngine, ledger: Ledger, mended: Path, records: list[OutboxRecord]
) -> None:
    """Save records little by little while operators and workers are busy; then mend the fault."""
    operators = Operators(engine)
    async with operators.at_work() as work:
        for start in range(0, len(records), BATCH):
            await save(engine, records[start : start + BATCH])
            await eventually(partial(has_come_far, work, ledger, start // 2), "deliveries flow")
        await eventually(lambda: work.done() or operators.have_decided, "some are discarded")
        await asyncio.to_thread(mended.touch)
    await eventually(operators.retry_all, "everything is settled")
    await judge(engine, ledger, operators, records)


def has_come_far(work: "asyncio.Task[None]", ledger: Ledger, count: int) -> bool:
    return work.done() or len(ledger.records()) >= count


async def judge(
    engine: AsyncEngine, ledger: Ledger, operators: Operators, records: Sequence[OutboxRecord]
) -> None:
    """Compare the ledger with what operators did: nothing is lost, doubled or out of order."""
    delivered = [entry for entry in ledger.delivered() if not entry.replay]
    replayed = [entry for entry in ledger.delivered() if entry.replay]
    wanted = {record.id for record in records} - operators.discarded
    assert sorted(entry.record for entry in delivered) == sorted(map(str, wanted))
    assert sorted((each.record, each.replay) for each in replayed) == await audited_replays(engine)
    late = set(map(str, operators.skipped))
    assert out_of_order(entry for entry in delivered if entry.record not in late) == []
    assert out_of_order_in_replays(replayed) == []
    assert await blocked_keys(engine) == []
    assert operators.have_decided
    assert replayed


@pytest.mark.requirement("E16", "C16")
async def test_four_workers_lose_and_double_nothing_while_operators_change_everything(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    fleet.configure(refused_percent=30, retry=0.02, poll=0.2, mended=str(mended))
    for _ in range(4):
        fleet.start()
    records = records_of_keys(KEYS, RECORDS // KEYS, max_retries=2)
    await under_load(engine, ledger, mended, records)
    assert len({entry.worker for entry in ledger.delivered()}) > 1
    assert await deadlocks(engine) == 0


async def deadlocks(engine: AsyncEngine) -> int:
    """Count those of the database, which is this test's own."""
    query = text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    await engine.dispose()  # a backend reports what it has counted when it ends
    async with engine.connect() as connection:
        return int(await connection.scalar(query) or 0)


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """A SQLite file with the outbox."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    yield engine
    await engine.dispose()


@pytest.mark.requirement("E16")
async def test_the_same_holds_for_a_worker_on_sqlite(
    file: AsyncEngine, ledger: Ledger, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    options = WorkerOptions(
        url=str(file.url),
        ledger=str(ledger.path),
        refused_percent=40,
        retry=0.02,
        poll=0.2,
        mended=str(mended),
    )
    with fleet_of(options, tmp_path) as fleet:
        fleet.start()
        records = records_of_keys(KEYS, FEW // KEYS, max_retries=2)
        await under_load(file, ledger, mended, records)


@pytest.mark.requirement("E16")
async def test_what_is_paused_stays_until_it_is_resumed_and_leaves_in_order(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet
) -> None:
    operations = Operations(outbox, engine)
    for _ in range(4):
        fleet.start()
    paused = records_of("k0", 20)
    others = [each for each in records_of_keys(KEYS, 20) if each.aggregate_id != "k0"]
    await operations.pause(key=Key(KIND, "k0"))
    await save(engine, [*paused, *others])
    await eventually(lambda: len(ledger.delivered()) == len(others), "the others are delivered")
    assert "k0" not in ledger.delivered_keys()

    await operations.resume(key=Key(KIND, "k0"))
    everything = len(paused) + len(others)
    await eventually(lambda: len(ledger.delivered()) == everything, "the rest is delivered")
    assert out_of_order(ledger.delivered()) == []


@pytest.mark.requirement("E16")
async def test_a_paused_outbox_delivers_nothing_until_it_is_resumed(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet
) -> None:
    operations = Operations(outbox, engine)
    workers = [fleet.start() for _ in range(4)]
    await eventually(lambda: all(worker.ready for worker in workers), "all are ready")
    await save(engine, records_of_keys(KEYS, 2))
    await eventually(lambda: len(ledger.delivered()) == 2 * KEYS, "deliveries flow")

    await operations.pause()
    await eventually(lambda: reports_after(engine, None, paused=True), "all workers are paused")
    await save(engine, records_of_keys(KEYS, 2))
    since = await reported_at(engine)
    await eventually(lambda: reports_after(engine, since, paused=True), "all report once more")
    assert len(ledger.delivered()) == 2 * KEYS

    await operations.resume()
    await eventually(lambda: len(ledger.delivered()) == 4 * KEYS, "deliveries flow again")
    assert out_of_order(ledger.delivered()) == []


async def reports(engine: AsyncEngine) -> Sequence[Any]:
    async with engine.connect() as connection:
        return (await connection.execute(select(TABLES.workers))).all()


async def reported_at(engine: AsyncEngine) -> Any:
    return max(row.reported_at for row in await reports(engine))


async def reports_after(engine: AsyncEngine, moment: Any, *, paused: bool) -> bool:
    """Tell whether all workers have reported after a moment that they are paused, or not."""
    found = await reports(engine)
    new = [row for row in found if row.report and (moment is None or row.reported_at > moment)]
    return len(new) == len(found) and all(row.report["paused"] is paused for row in new)
