"""One key with a long backlog shares its partition with others."""

import asyncio
import itertools
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.publishers.base import DELIVERED, Outcome
from postroom.record import ClaimedRecord
from postroom.relay.relay import OutboxRelay
from tests.chaos.ledger import Ledger, out_of_order, repeats
from tests.chaos.outbox import keys_in, records_of, running, save
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import outbox
from tests.support.waiting import FULL, eventually

pytestmark = pytest.mark.extended

PARTITION = 7
BACKLOG = 20_000 if FULL else 10_000  # some 10 s of deliveries: many times what others may wait
OTHERS = 40


@pytest.mark.requirement("C16")
@pytest.mark.parametrize("latency", [0.02, 0.001], ids=["slow", "fast"])
async def test_the_other_keys_of_a_partition_do_not_wait_for_a_hot_key(
    engine: AsyncEngine, ledger: Ledger, latency: float
) -> None:
    hot, *others = itertools.islice(keys_in(PARTITION), 1 + OTHERS)

    async def treat(record: ClaimedRecord) -> Outcome:
        if record.aggregate_id == hot:
            await asyncio.sleep(latency)  # the time that a broker takes
        return DELIVERED

    publisher = LedgerPublisher(ledger, treat=treat)
    relay = OutboxRelay(outbox, engine, publisher, poll_interval=timedelta(seconds=0.2))
    await save(engine, records_of(hot, BACKLOG))
    async with running(relay):
        await eventually(lambda: len(ledger.delivered()) > 20, "the hot key flows")
        await save(engine, [record for key in others for record in records_of(key, 2)])
        await eventually(lambda: set(others) <= set(twice(ledger)), "the others are delivered")
        assert len(ledger.positions(hot)) < BACKLOG / 2, "the others waited for the hot key"
        await relay.stop()

    assert out_of_order(ledger.delivered()) == []
    assert repeats(ledger.delivered()) == []


def twice(ledger: Ledger) -> list[str]:
    """Give the keys of which two records or more were delivered."""
    keys = sorted(ledger.delivered_keys())
    return [key for key, found in itertools.groupby(keys) if len(list(found)) > 1]
