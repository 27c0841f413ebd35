"""A record that closes the connection for all: it looks like an outage, and is none."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRecord, Status
from postroom.errors import ConnectionLostError
from postroom.publishers.base import DELIVERED, Delivered, Outcome
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
from tests.support.waiting import eventually, happens

Mistake = Callable[[Sequence[ClaimedRecord]], Any]
FEW = 8
"""Breaks by which the culprit is found; those in a row prove nothing."""
MANY = 30
"""Calls in a second that would be a busy loop."""


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


class Clumsy:
    """Answers wrongly for a while, and then as it should."""

    max_batch = 10
    max_in_flight = 40

    def __init__(self, ledger: Ledger, mistake: Mistake) -> None:
        self.calls = 0
        self.well = False
        self._ledger = ledger
        self._mistake = mistake

    async def open(self) -> None:
        pass

    async def publish(self, records: Sequence[ClaimedRecord]) -> Any:
        self.calls += 1
        if not self.well:
            return self._mistake(records)
        for record in records:
            self._ledger.write(What.DELIVERED, record, "here")
        return [Delivered() for _ in records]

    async def close(self) -> None:
        pass


def be_cancelled(records: Sequence[ClaimedRecord]) -> Any:
    raise asyncio.CancelledError("a connection that closes may do so")


def break_down(records: Sequence[ClaimedRecord]) -> Any:
    raise ZeroDivisionError


def say_nothing(records: Sequence[ClaimedRecord]) -> Any:
    return [None] * len(records)


def say_too_little(records: Sequence[ClaimedRecord]) -> Any:
    return [DELIVERED] * (len(records) - 1)


@pytest.mark.requirement("E1")
@pytest.mark.parametrize("mistake", [be_cancelled, break_down, say_nothing, say_too_little])
async def test_a_publisher_that_makes_a_mistake_is_given_a_rest_and_loses_nothing(
    engine: AsyncEngine, ledger: Ledger, mistake: Mistake
) -> None:
    records = records_of_keys(3, 3)
    publisher = Clumsy(ledger, mistake)
    await save(engine, records)
    relay = OutboxRelay(outbox, engine, publisher, retry=RetrySchedule.seconds(0.2, forever=True))
    async with running(relay):
        await eventually(lambda: publisher.calls > 0, "it is called")
        assert not await happens(lambda: publisher.calls > MANY, within=1)
        assert has_status(await rows(engine), Status.PENDING)
        publisher.well = True
        await eventually(lambda: len(ledger.delivered()) == len(records), "everything is delivered")
        await relay.stop()
    assert out_of_order(ledger.delivered()) == []
    assert has_status(await rows(engine), Status.PUBLISHED)
