"""Rows that are no records, or no records that anybody knows."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import DomainEvent, EventRegistry, OutboxRecord, Status
from postroom.publishers.handlers.publisher import HandlersPublisher
from postroom.relay.relay import OutboxRelay
from tests.chaos.ledger import Ledger
from tests.chaos.outbox import records_of, records_of_keys, rows, running, save
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import AccountOpened, outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended

RUBBISH = {
    "headers are a list": "headers = '[1, 2]'",
    "headers are null": "headers = 'null'",
    "a count below zero": "retry_count = -5",
    "a version below zero": "event_version = -1",
    "no type": "event_type = ''",
    "the end of time": "occurred_at = 'infinity'",
    "the beginning of time": "occurred_at = '-infinity'",
    "before Christ": "occurred_at = '0044-03-15 12:00:00+00 BC'",
    "in the far future": "occurred_at = '20000-01-01 00:00:00+00'",
    "created at no time": "created_at = '-infinity'",
    "a number that is none": "payload = '1e400'",
    "a payload of nothing": "payload = 'null'",
    "a partition that is none": "partition = 99",
    "a partition below zero": "partition = -1",
    "an empty key": "aggregate_id = ''",
    "at its limit": "max_retries = 0",
}


@pytest.mark.requirement("E1")
async def test_rows_edited_to_rubbish_are_delivered_or_fail_and_stop_nobody_else(
    engine: AsyncEngine, ledger: Ledger
) -> None:
    bad = [record for number in range(len(RUBBISH)) for record in records_of(f"bad{number}", 1)]
    good = records_of_keys(70, 1)
    await save(engine, [*bad, *good])
    for record, edit in zip(bad, RUBBISH.values(), strict=True):
        await make_rubbish(engine, record, edit)

    relay = OutboxRelay(
        outbox, engine, LedgerPublisher(ledger), poll_interval=timedelta(seconds=0.2)
    )
    async with running(relay):
        await eventually(
            lambda: {str(each.id) for each in good} <= ledger.records(), "the rest flows"
        )
        for record, name in zip(bad, RUBBISH, strict=True):
            await came_to_an_end(engine, record, name)
        await relay.stop()


async def make_rubbish(engine: AsyncEngine, record: OutboxRecord, edit: str) -> None:
    async with engine.begin() as connection:
        statement = text(f"UPDATE outbox SET {edit} WHERE id = :id")
        await connection.execute(statement, {"id": record.id})


async def came_to_an_end(engine: AsyncEngine, record: OutboxRecord, name: str) -> None:
    """Wait until a record is delivered, or failed with a reason."""

    async def ended() -> bool:
        row = await end_of(engine, record)
        gave_up = row.status == Status.FAILED and (row.error_message or row.max_retries == 0)
        return bool(row.status == Status.PUBLISHED or gave_up)

    await eventually(ended, f"{name}: it is delivered, or fails and says why")


async def end_of(engine: AsyncEngine, record: OutboxRecord) -> Any:
    """Read what became of a record, without the columns that a driver may not be able to read."""
    async with engine.connect() as connection:
        query = text("SELECT status, error_message, max_retries FROM outbox WHERE id = :id")
        return (await connection.execute(query, {"id": record.id})).one()


def registry_of(*events: type[DomainEvent]) -> EventRegistry:
    registry = EventRegistry()
    for each in events:
        registry.handles(each, name=f"Handle{each.__name__}")(Handler)
    return registry


class Handler:
    handled: list[Any]

    async def handle(self, event: Any) -> None:
        Handler.handled.append(event)


@pytest.mark.requirement("E1")
async def test_an_unfit_payload_fails_an_unknown_type_waits_and_both_say_so(
    engine: AsyncEngine,
) -> None:
    Handler.handled = []
    account = "00000000-0000-0000-0000-000000000001"
    fine = {"account_id": account, "email": "a@b.com"}
    values = [
        ("nobody.knows", fine, "a"),
        ("AccountOpened", {"account_id": "not a UUID", "email": "a@b.com"}, "b"),
        ("AccountOpened", [1, 2], "c"),
        ("AccountOpened", fine, "d"),
    ]
    records = [
        OutboxRecord(event_type=kind, payload=payload, aggregate_type="account", aggregate_id=key)
        for kind, payload, key in values
    ]
    await save(engine, records)
    publisher = HandlersPublisher(registry=registry_of(AccountOpened))

    tally = await OutboxRelay(outbox, engine, publisher).run_once()

    unknown, unfit, no_object, good = await rows(engine)
    assert (tally.delivered, tally.postponed, tally.failed) == (1, 1, 2)
    assert (unfit.status, no_object.status) == (Status.FAILED,) * 2
    assert (unknown.status, unknown.retry_count) == (Status.PENDING, 0)
    assert "no worker knows nobody.knows v1" in unknown.error_message
    assert "account_id" in unfit.error_message
    assert "AccountOpened" in no_object.error_message
    assert good.status == Status.PUBLISHED
    assert len(Handler.handled) == 1
