"""What a worker reports of itself into the database, for operators."""

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutageError, Outbox, OutboxRelay, UntypedEvent
from postroom.inspection import Inspector
from tests.support.gated_publisher import GatedPublisher
from tests.support.rows import save
from tests.support.shop import outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("E16")


async def reports(engine: AsyncEngine) -> list[dict[str, Any]]:
    async with engine.connect() as connection:
        found = await connection.execute(text("SELECT report FROM outbox_workers"))
        values = [row.report for row in found if row.report is not None]
    return [json.loads(each) if isinstance(each, str) else each for each in values]


@pytest.fixture
def publisher() -> GatedPublisher:
    return GatedPublisher("paid")


@pytest.fixture
def relay(engine: AsyncEngine, publisher: GatedPublisher) -> OutboxRelay:
    return OutboxRelay(outbox, engine, publisher, lease=timedelta(seconds=2))


async def test_a_worker_reports_what_it_delivers_and_leaves_no_row_behind(
    engine: AsyncEngine, relay: OutboxRelay, publisher: GatedPublisher
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
        assert (report["publisher"], report["in_flight"]) == ("the gated publisher", 1)
        assert (oldest["event_type"], oldest["key"]) == ("paid", "order/7")
        assert oldest["seconds"] > 0
        assert (report["publisher_outage"], report["paused"]) == (None, False)
        publisher.gate.set()
        await eventually(delivered)
        [report] = await reports(engine)
        assert (report["oldest"], report["per_minute"], report["failed"]) == (None, 1, 0)
    assert await reports(engine) == []


@pytest.mark.requirement("E10")
async def test_fields_that_a_worker_hides_are_hidden_from_who_knows_the_url_only(
    engine: AsyncEngine, publisher: GatedPublisher
) -> None:
    hiding = Outbox(MetaData(), redact=("email",))
    relay = OutboxRelay(hiding, engine, publisher, lease=timedelta(seconds=2))
    paid = UntypedEvent(event_type="paid", payload={"email": "ann@example.com", "total": 9})
    await save(engine, paid)

    async def reported() -> bool:
        return bool(await reports(engine))

    async with relay.running():
        await eventually(reported)
        inspector = Inspector(Outbox(MetaData()), engine)
        [record] = (await inspector.records()).records
        shown = await inspector.record(str(record.id))
        publisher.gate.set()
    assert shown.payload == {"email": "[redacted]", "total": 9}


async def test_a_worker_reports_an_outage(
    engine: AsyncEngine, relay: OutboxRelay, publisher: GatedPublisher
) -> None:
    publisher.shut = OutageError("it is shut")

    async def said() -> bool:
        return any(each["publisher_outage"] for each in await reports(engine))

    async with relay.running():
        await eventually(said)
        [report] = await reports(engine)
    assert report["publisher_outage"]["reason"] == "it is shut"
