"""A failed record that somebody sets to pending by hand, as runbooks of other outboxes say."""

from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRelay, Status, UntypedEvent
from postroom.operations import Operations
from postroom.testing import RecordingPublisher
from tests.chaos.outbox import blocked_keys
from tests.support.gated_publisher import happened
from tests.support.rows import all_delivered, rows, save, until
from tests.support.shop import outbox

BY_HAND = {
    "all columns": "UPDATE outbox SET status = 'pending', retry_count = 0, error_message = NULL",
    "two columns": "UPDATE outbox SET status = 'pending', retry_count = 0",
}
FOLLOWERS = ["A2", "A3", "A4"]


@pytest.fixture
def publisher() -> RecordingPublisher:
    publisher = RecordingPublisher()
    for name in ("A1", "keyless"):
        publisher.refuse(name, permanent=True)
    return publisher


@pytest.fixture
def relay(database: AsyncEngine, publisher: RecordingPublisher) -> OutboxRelay:
    return OutboxRelay(outbox, database, publisher, poll_interval=timedelta(seconds=0.1))


async def run(engine: AsyncEngine, statement: str) -> None:
    async with engine.begin() as connection:
        await connection.execute(text(f"{statement} WHERE status = 'failed'"))


def sent(publisher: RecordingPublisher) -> list[str]:
    return [each.event_type for each in publisher.messages]


async def has_failed(engine: AsyncEngine) -> None:
    await until(engine, lambda found: any(row.status == Status.FAILED for row in found))


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("statement", BY_HAND.values(), ids=BY_HAND)
async def test_it_is_taken_by_a_relay_that_runs_and_its_followers_after_it(
    database: AsyncEngine, relay: OutboxRelay, publisher: RecordingPublisher, statement: str
) -> None:
    async with relay.running():
        await save(database, *(happened(name, "A") for name in ("A1", *FOLLOWERS)))
        await has_failed(database)
        await save(database, happened("A5", "A"))
        await run(database, statement)
        await until(database, all_delivered)
        assert sent(publisher) == ["A1", *FOLLOWERS, "A5"]
        assert [row.retry_count for row in await rows(database)] == [0] * 5
    assert await blocked_keys(database) == []


@pytest.mark.requirement("E6")
async def test_so_is_one_without_a_key(
    database: AsyncEngine, relay: OutboxRelay, publisher: RecordingPublisher
) -> None:
    async with relay.running():
        await save(database, UntypedEvent(event_type="keyless", payload={}))
        await has_failed(database)
        await run(database, BY_HAND["two columns"])
        await until(database, all_delivered)
    assert sent(publisher) == ["keyless"]


@pytest.mark.requirement("E6")
async def test_so_is_one_that_was_skipped_before(
    database: AsyncEngine, relay: OutboxRelay, publisher: RecordingPublisher
) -> None:
    async with relay.running():
        await save(database, *(happened(name, "A") for name in ("A1", *FOLLOWERS)))
        await has_failed(database)
        await Operations(outbox, database).skip([row.id for row in await rows(database)])
        await until(database, lambda found: all_delivered(found[1:]))
        await run(database, BY_HAND["two columns"])
        await until(database, all_delivered)
        await save(database, happened("A5", "A"))
        await until(database, all_delivered)
    assert sent(publisher) == [*FOLLOWERS, "A1", "A5"]


@pytest.mark.requirement("E6")
async def test_hundreds_are_taken_each_before_its_followers(
    database: AsyncEngine, relay: OutboxRelay, publisher: RecordingPublisher
) -> None:
    publisher.refuse("A1", times=299, permanent=True)
    keys = [f"key {number}" for number in range(300)]
    async with relay.running():
        await save(database, *(happened(name, key) for name in ("A1", "A2") for key in keys))
        await until(
            database,
            lambda found: sum(row.status == Status.FAILED for row in found) == len(keys),
        )
        await run(database, BY_HAND["two columns"])
        await until(database, all_delivered)
    order = [(each.aggregate_id, each.event_type) for each in publisher.messages]
    assert all(order.index((key, "A1")) < order.index((key, "A2")) for key in keys)
