"""What the processing of an event does, and that it does so once."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from account import TOMORROW, Account, Json, path_of
from postroom import Message
from postroom.testing import RecordingPublisher
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from messaging.errors import NotFoundError
from messaging.models import outbox
from messaging.processing import InvalidEventError, Processor, Result

Deliver = Callable[[], Awaitable[object]]
Process = Callable[[Message], Awaitable[Result]]


@pytest.fixture
def process(processor: Processor) -> Process:
    async def process(event: Message) -> Result:
        return await processor.process(str(event.id), event.event_type, event.payload)

    return process


@pytest.fixture
async def queued(account: Account) -> Json:
    return await account.group_message("queued")


@pytest.fixture
async def event(queued: Json, delivered: Deliver, publisher: RecordingPublisher) -> Message:
    await delivered()
    return publisher.assert_published("group_message.queued", id=queued["id"])


async def test_a_queued_message_is_completed_with_a_delivery_for_each_recipient(
    account: Account,
    queued: Json,
    event: Message,
    process: Process,
    delivered: Deliver,
    publisher: RecordingPublisher,
) -> None:
    assert await process(event) is Result.PROCESSED
    assert await account.status(queued) == "completed"
    assert await account.recipients(queued) == ["ann", "bob"]
    await delivered()
    for step in ("processing", "completed"):
        told = publisher.assert_published(f"group_message.{step}", id=queued["id"])
        assert told.payload["request_id"] == event.payload["request_id"]


async def test_a_repeated_event_has_no_second_effect(
    account: Account, queued: Json, event: Message, process: Process
) -> None:
    await process(event)
    assert await process(event) is Result.REPEATED
    assert await account.recipients(queued) == ["ann", "bob"]


async def test_an_old_event_that_comes_again_does_not_send_a_message_that_is_queued_again(
    account: Account, queued: Json, event: Message, processor: Processor, process: Process
) -> None:
    await account.change(queued, status="cancelled")
    await process(event)  # too late: there was nothing to send
    other = await account.group_message("queued")
    payload = {**event.payload, "id": other["id"]}  # even if its effect would be another one
    assert await processor.process(str(event.id), event.event_type, payload) is Result.REPEATED
    assert await account.recipients(queued) == await account.recipients(other) == []


async def test_what_fails_leaves_neither_a_receipt_nor_an_effect(
    account: Account, queued: Json, event: Message, processor: Processor, engine: AsyncEngine
) -> None:
    unknown = {**event.payload, "id": str(uuid4())}
    with pytest.raises(NotFoundError):
        await processor.process(str(event.id), event.event_type, unknown)
    inbox = outbox.inbox.table
    async with engine.connect() as connection:
        query = select(inbox).where(inbox.c.message_id == str(event.id))
        assert (await connection.execute(query)).all() == []
    assert await account.recipients(queued) == []


@pytest.mark.parametrize("event_id", [None, "an id"])
async def test_an_event_that_cannot_be_read_is_refused(
    processor: Processor, event_id: str | None
) -> None:
    with pytest.raises(InvalidEventError):
        await processor.process(event_id, "group_message.queued", {"id": 7})


async def test_events_that_nothing_is_to_be_done_about_are_ignored(processor: Processor) -> None:
    assert await processor.process(None, "group_message.created", None) is Result.IGNORED


async def test_a_message_for_later_is_sent_when_it_is_due(
    account: Account, process: Process, delivered: Deliver, publisher: RecordingPublisher
) -> None:
    message = await account.group_message("queued", scheduled_at=TOMORROW.isoformat())
    await delivered()
    await process(publisher.assert_published("group_message.queued", id=message["id"]))
    await delivered()  # the event `due` is delivered tomorrow
    publisher.assert_not_published("group_message.due", id=message["id"])
    assert (await account.status(message), await account.recipients(message)) == ("queued", [])


async def test_a_scheduled_message_is_sent_at_its_time_and_planned_again(
    account: Account,
    processor: Processor,
    process: Process,
    delivered: Deliver,
    publisher: RecordingPublisher,
    engine: AsyncEngine,
) -> None:
    rule = {"is_recurring": True, "recurrence_rule": "FREQ=DAILY;COUNT=2"}
    message = await account.scheduled_message(**rule)
    await delivered()
    created = publisher.assert_published("scheduled_message.created", id=message["id"])
    assert await process(created) is Result.PROCESSED

    for day in (TOMORROW, TOMORROW + timedelta(days=1)):
        assert await planned(engine, message) == day
        payload = {**created.payload, "due_at": day.isoformat()}
        for _ in range(2):  # of two plans for the same time, the second finds nothing to do
            await processor.process(str(uuid4()), "scheduled_message.due", payload)
    assert await account.recipients(message) == ["ann", "ann"]
    now = await account.get(path_of(message))
    assert (now["status"], now["next_trigger_at"]) == ("completed", None)


async def test_a_paused_message_is_not_sent(account: Account, processor: Processor) -> None:
    message = await account.scheduled_message("paused")
    payload = {**message, "user_id": str(account.user_id), "due_at": TOMORROW.isoformat()}
    await processor.process(str(uuid4()), "scheduled_message.due", payload)
    assert await account.recipients(message) == []


async def planned(engine: AsyncEngine, message: Json) -> datetime:
    """Return when the latest event `due` of a message is delivered."""
    record = outbox.tables.records.c
    query = (
        select(record.payload)
        .where(record.event_type == "scheduled_message.due", record.aggregate_id == message["id"])
        .order_by(record.position.desc())
        .limit(1)
    )
    async with engine.connect() as connection:
        payload = (await connection.scalars(query)).one()
    return datetime.fromisoformat(payload["due_at"])
