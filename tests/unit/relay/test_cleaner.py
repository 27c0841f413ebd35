"""The clean-up: everything old, batch by batch, every ten minutes, also after an error."""

import asyncio
import logging
from datetime import timedelta
from typing import cast

import pytest

from postroom.relay.cleaner import BATCH, clean, clean_regularly
from postroom.store.base import Cleaned
from postroom.store.store import Store
from tests.unit.relay.hand_clock import START, HandClock

WEEK = timedelta(days=7)


class StoreToClean:
    """A store with delivered records, all of them old. `cleaning` is the store itself."""

    def __init__(self, records: int = 0) -> None:
        self.records = records
        self.cleaning, self.repairs = self, 0

    async def repair(self) -> int:
        self.repairs += 1
        return 0

    async def clean(self, *, older_than: timedelta, after: int, limit: int) -> Cleaned:
        assert older_than == WEEK
        deleted = min(limit, self.records - after)
        return Cleaned(deleted=deleted, last=after + limit if deleted == limit else None)


@pytest.mark.requirement("C14")
@pytest.mark.parametrize("records", [0, 1, BATCH, 2 * BATCH + 1])
async def test_everything_that_is_old_is_deleted_batch_by_batch(records: int) -> None:
    assert await clean(cast(Store, StoreToClean(records)), WEEK) == records


async def test_without_a_retention_records_are_repaired_and_kept() -> None:
    store = StoreToClean(records=1)
    assert await clean(cast(Store, store), None) == 0
    assert store.repairs == 1


@pytest.mark.requirement("C14")
async def test_it_cleans_up_every_ten_minutes_also_after_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, times = HandClock(), list[float]()

    class Failing(StoreToClean):
        async def repair(self) -> int:
            times.append(clock.now - START)
            raise RuntimeError("no index")

    cleaner = asyncio.create_task(clean_regularly(cast(Store, Failing()), clock, WEEK))
    clock.at(1500, cleaner.cancel)
    with pytest.raises(asyncio.CancelledError):
        await cleaner
    assert times == [0, 600, 1200]
    assert [each.levelno for each in caplog.records] == [logging.ERROR] * 3
    assert "the clean-up has to wait: no index" in caplog.text
