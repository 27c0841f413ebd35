"""A record that closes the connection for all: it looks like an outage, and is none."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRecord, Status
from postroom.errors import ConnectionLostError
from postroom.publishers.base import DELIVERED, Outcome
from postroom.record import ClaimedRecord
from postroom.relay.health import HealthStatus
from postroom.relay.relay import OutboxRelay
from postroom.relay.retry import RetrySchedule
from tests.chaos.ledger import Ledger, What, out_of_order
from tests.chaos.outbox import (
    TABLES,
    has_status,
    records_of,
    records_of_keys,
    row_of,
    rows,
    running,
    save,
)
from tests.support.shop import outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended

FEW = 8
"""Breaks by which the culprit is found; those in a row prove nothing."""


class Channel:
    """One connection for all: what breaks it, breaks every call that is under way."""

    max_batch = 10
    max_in_flight = 40

    def __init__(self, ledger: Ledger, *bad: OutboxRecord) -> None:
        self.breaks = 0
        self._ledger = ledger
        self._bad = {record.id for record in bad}
        self._broken = asyncio.Event()

    async def open(self) -> None:
        self._broken = asyncio.Event()

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        if self._bad & {record.id for record in records}:
            self.breaks += 1
            self._broken.set()
        await self._round_trip()
        for record in records:
            self._ledger.write(What.DELIVERED, record, "here")
        return [DELIVERED] * len(records)

    async def close(self) -> None:
        pass

    async def _round_trip(self) -> None:
        broken = self._broken
        try:
            async with asyncio.timeout(0.01):
                await broken.wait()
        except TimeoutError:
            return
        raise ConnectionLostError("the channel was closed: frame too large")


@pytest.mark.requirement("E1", "C16")
async def test_a_record_that_closes_the_channel_is_refused_alone_and_the_rest_flows(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    bad, *followers = records_of("k0", 3)
    others = records_of_keys(30, 10)
    await save(engine, [*others[:150], bad, *others[150:], *followers])
    behind = [each for each in others[150:] if each.aggregate_id == "k0"] + followers
    channel = Channel(ledger, bad)
    relay = OutboxRelay(
        outbox,
        engine,
        channel,
        batch_size=50,
        retry=RetrySchedule.seconds(3600, forever=True),
        poll_interval=timedelta(seconds=0.2),
    )
    async with running(relay):
        free = len(others) + len(followers) - len(behind)
        await eventually(lambda: len(ledger.delivered()) >= free, "the rest has left")
        await eventually(lambda: was_refused(engine, bad), "the bad one is refused")
        await eventually(lambda: relay.health.status is HealthStatus.OK, "all is well again")
        await relay.stop()

    row = await row_of(engine, bad)
    assert "frame too large" in row.error_message
    assert (row.status, row.retry_count) == (Status.PENDING, 1)
    rest = await rows(engine, TABLES.records.c.id.not_in([each.id for each in (bad, *behind)]))
    assert has_status(rest, Status.PUBLISHED)
    assert {each.retry_count for each in rest} == {0}
    assert out_of_order(ledger.delivered()) == []
    assert not {str(each.id) for each in behind} & ledger.records()
    assert channel.breaks <= FEW


async def was_refused(engine: AsyncEngine, record: OutboxRecord) -> bool:
    return bool((await row_of(engine, record)).retry_count)
