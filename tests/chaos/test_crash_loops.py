"""Workers that die again and again of something else: no record is blamed, and work gets done."""

import random
from collections.abc import Callable
from itertools import count

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.relay.poison import QUARANTINED_AFTER
from tests.chaos.fleet import Fleet, Worker
from tests.chaos.ledger import Ledger, out_of_order
from tests.chaos.outbox import TABLES, records_of_keys, save
from tests.support.waiting import FULL, happens

KEYS = 500
LOOK_EVERY = 0.1
LEAST = 0.5
"""The part of what the first ones did that workers do on the average, at least."""


class CrashLoop:
    """Keeps workers running that die, and looks what is held against records."""

    def __init__(self, engine: AsyncEngine, ledger: Ledger, fleet: Fleet) -> None:
        self.most_deaths = 0
        """That a record was a suspect of."""
        self._engine, self._ledger, self._fleet = engine, ledger, fleet

    async def run(
        self, workers: int, deaths: int, strike: Callable[[int], object] = lambda _: None
    ) -> None:
        """Go on until so many workers are dead; `strike` is called ten times a second."""
        for tick in count():
            while len(self._fleet.alive) < workers:
                self._fleet.start()
            strike(tick)
            if await happens(lambda: len(self._fleet.dead) >= deaths, within=LOOK_EVERY):
                return
            self.most_deaths = max(self.most_deaths, await self._suspect_crashes())

    async def _suspect_crashes(self) -> int:
        async with self._engine.connect() as connection:
            return (await connection.scalar(select(func.max(TABLES.leases.c.suspect_crashes)))) or 0

    def delivered_by(self, workers: list[Worker]) -> list[int]:
        """Count what each of some workers has delivered."""
        names = [entry.worker for entry in self._ledger.delivered()]
        return [names.count(each.name) for each in workers]

    async def nobody_was_blamed(self) -> bool:
        """Tell whether no record came near the end, and none has a history."""
        attempts = select(func.count()).select_from(TABLES.attempts)
        async with self._engine.connect() as connection:
            return not await connection.scalar(attempts) and self.most_deaths < QUARANTINED_AFTER


@pytest.fixture
def crash_loop(engine: AsyncEngine, ledger: Ledger, fleet: Fleet) -> CrashLoop:
    return CrashLoop(engine, ledger, fleet)


SHORT = (1, 2.5, 0.2, 4)
LONG = [(1, 5.0, 0.2, 36), (4, 5.0, 0.2, 144), (1, 20.0, 8.0, 12), (1, 5.0, 2.0, 36)]
"""How many workers, how long they live, how long a delivery takes, and how many die."""


@pytest.mark.requirement("E19")
@pytest.mark.parametrize(("workers", "life", "latency", "deaths"), LONG if FULL else [SHORT])
async def test_a_crash_loop_blames_no_record_and_makes_progress(
    engine: AsyncEngine,
    ledger: Ledger,
    fleet: Fleet,
    crash_loop: CrashLoop,
    *,
    workers: int,
    life: float,
    latency: float,
    deaths: int,
) -> None:
    room = 50 // workers
    enough = int(1.1 * deaths * room * life / latency) // KEYS + 1
    await save(engine, records_of_keys(KEYS, enough))
    fleet.configure(life=life, latency=latency, max_in_flight=room, batch_size=20)

    await crash_loop.run(workers, deaths)

    assert await crash_loop.nobody_was_blamed()
    assert out_of_order(ledger.delivered()) == []
    done = crash_loop.delivered_by(fleet.dead)
    first = done[:workers]
    assert sum(done) / len(done) >= LEAST * sum(first) / len(first)


@pytest.mark.extended
@pytest.mark.requirement("E19")
@pytest.mark.parametrize("seconds", [1, 10])
async def test_workers_that_are_killed_one_after_the_other_blame_no_record(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet, crash_loop: CrashLoop, seconds: int
) -> None:
    await save(engine, records_of_keys(KEYS, 100 if FULL else 20))
    fleet.configure(latency=0.2, max_in_flight=12, batch_size=20)
    chance = random.Random(seconds)

    def strike(tick: int) -> None:
        if tick and tick % round(seconds / LOOK_EVERY) == 0:
            victims = fleet.alive
            (victims[0] if seconds == 10 else chance.choice(victims)).kill()

    await crash_loop.run(4, (180 if FULL else 10) // seconds, strike)

    assert await crash_loop.nobody_was_blamed()
    assert out_of_order(ledger.delivered()) == []
