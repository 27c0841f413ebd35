"""What a worker reports of itself into the database, for operators."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutageError, Outbox, OutboxRelay, UntypedEvent
from postroom.inspection import Inspector
from postroom.publishers.base import DELIVERED, Outcome
from postroom.record import ClaimedRecord
from tests.support.rows import save
from tests.support.shop import outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("E16")


class Gate:
    """A publisher whose records wait until it opens; or it is away."""

    max_batch = 1
    max_in_flight = 10

    def __init__(self) -> None:
        self.opened, self.away = asyncio.Event(), False

    def __str__(self) -> str:
        return "the gate"

    async def open(self) -> None:
        if self.away:
            raise OutageError("the gate is shut")

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        if self.away:
            raise OutageError("the gate is shut")
        await self.opened.wait()
        return [DELIVERED] * len(records)

    async def close(self) -> None: ...


async def reports(engine: AsyncEngine) -> list[dict[str, Any]]:
    async with engine.connect() as connection:
        found = await connection.execute(text("SELECT report FROM outbox_workers"))
        values = [row.report for row in found if row.report is not None]
    return [json.loads(each) if isinstance(each, str) else each for each in values]


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def relay(engine: AsyncEngine, gate: Gate) -> OutboxRelay:
    return OutboxRelay(outbox, engine, gate, lease=timedelta(seconds=2))


async def test_a_worker_reports_what_it_delivers_and_leaves_no_row_behind(
    engine: AsyncEngine, relay: OutboxRelay, gate: Gate
) -> None:
    paid = UntypedEvent(event_type="paid", aggregate_type="order", aggregate_id=7, payload={})
    await save(engine, paid)

    async def in_flight() -> bool:
        return any(each["in_flight"] for each in await reports(engine))

    async def delivered() -> bool:
        return any(each["delivered"] for each in await reports(engine))

    async with relay.running():
        await eventually(in_flight)
        [report] = await reports(engine)
        oldest = report["oldest"]
        assert (report["publisher"], report["in_flight"]) == ("the gate", 1)
        assert (oldest["event_type"], oldest["key"]) == ("paid", "order/7")
        assert oldest["seconds"] > 0
        assert (report["publisher_outage"], report["paused"]) == (None, False)
        gate.opened.set()
        await eventually(delivered)
        [report] = await reports(engine)
        assert (report["oldest"], report["per_minute"], report["failed"]) == (None, 1, 0)
    assert await reports(engine) == []


@pytest.mark.requirement("E10")
async def test_fields_that_a_worker_hides_are_hidden_from_who_knows_the_url_only(
    engine: AsyncEngine, gate: Gate
) -> None:
    hiding = Outbox(MetaData(), redact=("email",))
    relay = OutboxRelay(hiding, engine, gate, lease=timedelta(seconds=2))
    paid = UntypedEvent(event_type="paid", payload={"email": "ann@example.com", "total": 9})
    await save(engine, paid)

    async def reported() -> bool:
        return bool(await reports(engine))

    async with relay.running():
        await eventually(reported)
        inspector = Inspector(Outbox(MetaData()), engine)
        [record] = (await inspector.records()).records
        shown = await inspector.record(str(record.id))
        gate.opened.set()
    assert shown.payload == {"email": "[redacted]", "total": 9}


async def test_a_worker_reports_an_outage(
    engine: AsyncEngine, relay: OutboxRelay, gate: Gate
) -> None:
    gate.away = True

    async def said() -> bool:
        return any(each["publisher_outage"] for each in await reports(engine))

    async with relay.running():
        await eventually(said)
        [report] = await reports(engine)
    assert report["publisher_outage"]["reason"] == "the gate is shut"
