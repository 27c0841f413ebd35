"""A database that has lost commits under a relay that runs: it gives positions out again."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import ClaimedRecord, Delivered, OutboxRelay, Outcome, RetrySchedule
from postroom.publishers.base import DELIVERED, Postponed, Refused
from tests.chaos.outbox import blocked_keys
from tests.support.gated_publisher import happened
from tests.support.positions import lose_everything
from tests.support.rows import all_delivered, rows, save, until
from tests.support.shop import outbox
from tests.support.waiting import eventually

HOUR = timedelta(hours=1)
OLD: dict[str, Callable[[], Outcome]] = {
    "delivered": lambda: DELIVERED,
    "refused": lambda: Refused("not now"),
    "failed": lambda: Refused("never", permanent=True),
    "postponed": lambda: Postponed("no route", delay=HOUR),
}
"""What becomes of the records that are in flight when the database changes."""
NEW = ("new1", "new2", "new3", "new4", "new5", "new6", "new7", "new8")


class Publisher:
    """Holds the old records back until `gate` is set, and then answers as `OLD` says."""

    max_batch = 1
    max_in_flight = 100

    def __init__(self) -> None:
        self.started: list[str] = []
        self.delivered: Counter[str] = Counter()
        self.gate = asyncio.Event()

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        return [await self._take(record.event_type) for record in records]

    async def _take(self, name: str) -> Outcome:
        self.started.append(name)
        if name in OLD:
            await self.gate.wait()
        outcome = OLD.get(name, lambda: DELIVERED)()
        if isinstance(outcome, Delivered):
            self.delivered[name] += 1
        return outcome


@pytest.fixture
def publisher() -> Publisher:
    return Publisher()


def relay_on(engine: AsyncEngine, publisher: Publisher) -> OutboxRelay:
    return OutboxRelay(
        outbox,
        engine,
        publisher,
        poll_interval=timedelta(seconds=0.2),
        retry=RetrySchedule.seconds(3600, forever=True),
    )


async def save_old(engine: AsyncEngine, publisher: Publisher) -> None:
    """Save the old records, each with a follower, and wait until they are in flight."""
    followers = [happened(f"after {name}", name) for name in OLD]
    await save(engine, *map(happened, OLD), *followers)
    await eventually(lambda: set(OLD) <= set(publisher.started), "they are in flight")


async def assert_delivered(engine: AsyncEngine, publisher: Publisher) -> None:
    """Wait until the new records are marked, and see that each was delivered, as the first time."""
    await until(engine, all_delivered)
    assert {name: publisher.delivered[name] for name in NEW} == dict.fromkeys(NEW, 1)
    found = await rows(engine)
    assert {row.event_type: (row.retry_count, row.error_message) for row in found} == (
        dict.fromkeys(NEW, (0, None))
    )
    assert await blocked_keys(engine) == []


@pytest.mark.requirement("E18")
async def test_records_that_get_the_positions_of_what_is_in_flight_are_delivered_themselves(
    database: AsyncEngine, publisher: Publisher
) -> None:
    relay = relay_on(database, publisher)
    async with relay.running():
        await save_old(database, publisher)
        first = min(row.position or 0 for row in await rows(database))
        await lose_everything(database, first)
        await save(database, *map(happened, NEW))
        publisher.gate.set()
        await assert_delivered(database, publisher)


@pytest.mark.requirement("E18")
async def test_records_that_get_the_positions_of_what_is_held_are_not_passed_by_later_ones(
    database: AsyncEngine, publisher: Publisher
) -> None:
    relay = relay_on(database, publisher)
    async with relay.running():
        await save_old(database, publisher)
        last = max(row.position or 0 for row in await rows(database))
        await lose_everything(database, last - 1)
        await save(database, *(happened(name, "new") for name in NEW[:3]))
        await eventually(lambda: NEW[2] in publisher.started, "the last one is sent")
        publisher.gate.set()
        await until(database, all_delivered)
    assert [each for each in publisher.started if each in NEW] == list(NEW[:3])


@pytest.mark.requirement("E18")
async def test_a_backup_of_a_file_that_is_restored_under_a_relay_loses_no_later_record(
    sqlite_file: AsyncEngine, publisher: Publisher, shop_file: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "backup.db"
    copy(shop_file, backup)
    relay = relay_on(sqlite_file, publisher)
    async with relay.running():
        await save_old(sqlite_file, publisher)
        await asyncio.to_thread(copy, backup, shop_file)
        await save(sqlite_file, *map(happened, NEW))
        assert await positions(sqlite_file) == list(range(1, len(NEW) + 1))
        publisher.gate.set()
        await assert_delivered(sqlite_file, publisher)


async def positions(engine: AsyncEngine) -> list[int | None]:
    return [row.position for row in await rows(engine)]


def copy(source: Path, target: Path) -> None:
    """Copy a database into another file, in place of what is there."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)
