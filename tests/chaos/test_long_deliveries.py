"""Deliveries that outlast a lease, and followers that pile up behind them."""

import asyncio
import itertools

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRecord
from postroom.publishers.base import DELIVERED, Outcome
from postroom.record import ClaimedRecord
from postroom.relay.relay import OutboxRelay
from tests.chaos.ledger import Ledger, What, out_of_order, repeats
from tests.chaos.outbox import (
    blocked_keys,
    keys_in,
    records_of,
    running,
    save,
)
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import outbox
from tests.support.waiting import FULL, eventually

pytestmark = pytest.mark.extended

FOLLOWERS = 5_000 if FULL else 1_500


class HoldsOneRecord:
    """Takes everything at once but one record, which it keeps waiting."""

    def __init__(self, slow: OutboxRecord) -> None:
        self.done = asyncio.Event()
        self._slow = slow

    async def take(self, record: ClaimedRecord) -> Outcome:
        if record.id == self._slow.id:
            await self.done.wait()
        return DELIVERED


@pytest.mark.requirement("E1", "C16")
async def test_a_slow_record_stalls_its_key_and_not_its_partition(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    slow_key, *other_keys = itertools.islice(keys_in(7), 6)
    slow, *followers = records_of(slow_key, 1 + FOLLOWERS)
    others = [record for key in other_keys for record in records_of(key, 4)]
    holding = HoldsOneRecord(slow)
    await save(engine, [slow, *followers])
    await save(engine, others)
    relay = OutboxRelay(outbox, engine, LedgerPublisher(ledger, treat=holding.take))

    async with running(relay):
        await eventually(lambda: len(ledger.delivered()) == len(others), "the other keys flow")
        assert slow_key not in ledger.delivered_keys()
        holding.done.set()
        count = 1 + FOLLOWERS + len(others)
        await eventually(lambda: len(ledger.delivered()) == count, "the followers have left")
        await relay.stop()

    assert repeats(ledger.delivered()) == []
    assert out_of_order(ledger.delivered()) == []
    assert ledger.has(What.DELIVERED, followers[-1].id)
    assert await blocked_keys(engine) == []
