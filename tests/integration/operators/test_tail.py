"""`postroom tail`: deliveries and refusals, as they happen; and what it reads for that."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import (
    OutboxRelay,
    RetrySchedule,
    UntypedEvent,
)
from postroom.inspection import Activity, ActivityKind, Happening, Inspector
from postroom.operations import Operations
from postroom.testing import RecordingPublisher
from tests.support.command import Commands
from tests.support.rows import rows, save
from tests.support.shop import outbox
from tests.support.waiting import eventually

ONE_LATER = RetrySchedule.seconds(3600)


def event(name: str, key: int | None = None) -> UntypedEvent:
    kind = None if key is None else "order"
    return UntypedEvent(event_type=name, aggregate_type=kind, aggregate_id=key, payload={})


async def deliver(engine: AsyncEngine, *refused: str, retention: timedelta | None = None) -> None:
    publisher = RecordingPublisher()
    for each in refused:
        publisher.refuse(each, f"no {each}")
    relay = OutboxRelay(outbox, engine, publisher, retry=ONE_LATER, retention=retention)
    await relay.run_once()


async def told(activity: Activity) -> list[tuple[str, str]]:
    return [(str(each.kind), each.event_type) for each in await activity.poll()]


async def test_deliveries_and_refusals_are_told_once(database: AsyncEngine) -> None:
    await save(database, event("old"))
    await deliver(database)
    await save(database, event("waiting"))
    activity = await Inspector(outbox, database).activity()
    assert await activity.poll() == []  # what was there before
    await save(database, event("new"), event("bad", 7))
    await deliver(database, "bad")
    happened = await activity.poll()
    assert {(each.kind, each.event_type) for each in happened} == {
        (ActivityKind.DELIVERED, "waiting"),
        (ActivityKind.DELIVERED, "new"),
        (ActivityKind.REFUSED, "bad"),
    }
    assert happened == sorted(happened, key=lambda each: each.at)
    [refused] = [each for each in happened if each.kind is ActivityKind.REFUSED]
    assert (refused.reason, refused.attempts) == ("no bad", 1)
    assert refused.key == ("order", "7")
    assert await activity.poll() == []


async def test_a_refused_record_is_told_again_when_it_is_delivered(database: AsyncEngine) -> None:
    await save(database, event("bad", 7), event("after", 7))
    await deliver(database, "bad")
    activity = await Inspector(outbox, database).activity()
    [record, _] = await rows(database)
    await Operations(outbox, database).retry([record.id])
    await deliver(database)
    assert await told(activity) == [("delivered", "bad"), ("delivered", "after")]


async def test_records_far_behind_the_newest_are_told(database: AsyncEngine) -> None:
    await save(database, *(event("many") for _ in range(700)))
    activity = await Inspector(outbox, database).activity()
    await deliver(database)
    assert await told(activity) == [("delivered", "many")] * 700
    assert await told(activity) == []


async def test_a_record_that_failed_is_told_as_failed(database: AsyncEngine) -> None:
    activity = await Inspector(outbox, database).activity()
    await save(database, event("bad"))
    publisher = RecordingPublisher()
    publisher.refuse("bad", times=10)
    at_once = RetrySchedule.seconds(0, forever=True)
    relay = OutboxRelay(outbox, database, publisher, retry=at_once)
    await relay.run_once()
    happened = await activity.poll()
    kinds = [each.kind for each in happened]
    assert kinds == [ActivityKind.REFUSED] * 9 + [ActivityKind.FAILED]
    assert happened[-1].attempts == 10


async def test_a_record_that_is_deleted_is_told_as_gone(database: AsyncEngine) -> None:
    await save(database, event("unwanted"))
    activity = await Inspector(outbox, database).activity()
    async with database.begin() as connection:
        await connection.execute(delete(outbox.tables.records))
    [happened] = await activity.poll()
    assert isinstance(happened, Happening)
    assert (happened.kind, happened.event_type) == (ActivityKind.GONE, "unwanted")


@pytest.mark.no_cover
@pytest.mark.parametrize("how", ["lines", "json"])
async def test_the_command_prints_a_line_for_each_until_it_is_stopped(
    postroom: Commands, engine: AsyncEngine, database_url: str, how: str
) -> None:
    words = ["--json"] if how == "json" else []
    only = ["--type", "order.*", "--interval", "0.05"]
    tail = postroom("tail", *words, *only, "--database", database_url, PYTHONUNBUFFERED="1")

    async def prints() -> bool:  # it tells of what happens once it has begun
        await save(engine, event("order.placed", 7), event("mail.sent"))
        await deliver(engine)
        return bool(tail.out) or tail.ended

    await eventually(prints)
    assert tail.out, tail.err
    line = tail.out.splitlines()[0]
    if how == "json":
        document = json.loads(line)
        assert (document["kind"], document["key"]) == ("delivered", "order/7")
    else:
        _, kind, _, event_type, key, *_ = line.split()
        assert (kind, event_type, key) == ("delivered", "order.placed", "order/7")
    assert "mail.sent" not in tail.out
    assert await tail.stop() == -15
    assert tail.err == ""
