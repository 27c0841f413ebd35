"""What is told of messages: that they are there, each step they take, and other times."""

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from examples.messaging.tests.account import TOMORROW, Account, Json, path_of
from tests.examples.messaging.database import Database
from tests.support.waiting import eventually

LATER = TOMORROW + timedelta(days=7)
WEEKLY = {"is_recurring": True, "recurrence_rule": "FREQ=WEEKLY;COUNT=9"}
MOMENTS = ("scheduled_at", "next_trigger_at")


def told(database: Database, message: Json) -> dict[str, Any]:
    """Give the payload of the latest record of a message, its moments read."""
    payload = database.records(message["id"])[-1].payload
    assert datetime.fromisoformat(payload.pop("timestamp")).utcoffset() is not None
    assert str(UUID(payload["request_id"])) == payload.pop("request_id")
    read = {name: datetime.fromisoformat(payload[name]) for name in MOMENTS if name in payload}
    return payload | read


def envelope(account: Account, message: Json, event_type: str) -> dict[str, Any]:
    """Give what the payload of every event of a message has."""
    return {
        "id": message["id"],
        "account_id": str(account.id),
        "event_type": event_type,
        "aggregate_type": event_type.partition(".")[0],
        "aggregate_id": message["id"],
        "user_id": str(account.user_id),
    }


@pytest.mark.requirement("C5")
@pytest.mark.requirement("C18")
async def test_a_new_group_message_is_told(account: Account, shared_database: Database) -> None:
    names = [["ann", "bob"], ["bob", "cleo"]]
    groups = [await account.post("/contact-groups", name="All", contacts=each) for each in names]
    ids = [group["id"] for group in groups]
    message = await account.group_message(
        contact_group_ids=ids, scheduled_at="2030-03-31T12:00:00+02:00"
    )
    assert told(shared_database, message) == {
        **envelope(account, message, "group_message.created"),
        "channel_id": message["channel_id"],
        "template_id": message["template_id"],
        "status": "draft",
        "contact_group_ids": ids,
        "total_recipients": 3,
        "scheduled_at": datetime.fromisoformat("2030-03-31T10:00Z"),
    }


@pytest.mark.requirement("C6")
@pytest.mark.requirement("C18")
async def test_a_new_scheduled_message_is_told(account: Account, shared_database: Database) -> None:
    message = await account.scheduled_message(timezone="Europe/Vienna", **WEEKLY)
    assert told(shared_database, message) == {
        **envelope(account, message, "scheduled_message.created"),
        "channel_id": message["channel_id"],
        "template_id": message["template_id"],
        "send_type": "single",
        "status": "pending",
        "timezone": "Europe/Vienna",
        **WEEKLY,
        "scheduled_at": TOMORROW,
        "next_trigger_at": TOMORROW,
    }


@pytest.mark.requirement("C5")
@pytest.mark.requirement("C18")
@pytest.mark.parametrize(
    "steps",
    [
        "draft queued",
        "draft cancelled",
        "draft queued processing",
        "draft queued cancelled",
        "draft queued processing completed",
        "draft queued processing failed",
        "draft queued processing failed queued",
        "draft queued processing failed cancelled",
    ],
)
async def test_each_step_of_a_group_message_is_told_with_the_one_before(
    account: Account, shared_database: Database, steps: str
) -> None:
    first, *later = steps.split()
    message = await account.group_message(*later)
    previous, status = [first, *later][-2:]
    assert told(shared_database, message) == {
        **envelope(account, message, f"group_message.{status}"),
        "status": status,
        "previous_status": previous,
    }
    assert shared_database.events(message["id"]) == ["created", *later]


@pytest.mark.requirement("C6")
@pytest.mark.requirement("C18")
@pytest.mark.parametrize(
    ("steps", "event", "more"),
    [
        ("pending cancelled", "cancelled", {}),
        ("pending paused", "paused", {}),
        ("pending paused cancelled", "cancelled", {}),
        ("pending processing failed cancelled", "cancelled", {}),
        ("pending paused pending", "resumed", {"next_trigger_at": TOMORROW}),
    ],
)
async def test_stops_and_starts_of_a_scheduled_message_are_told_with_the_status_before(
    account: Account, shared_database: Database, steps: str, event: str, more: dict[str, Any]
) -> None:
    message = await account.scheduled_message(*steps.split()[1:])
    previous, status = steps.split()[-2:]
    assert told(shared_database, message) == {
        **envelope(account, message, f"scheduled_message.{event}"),
        "status": status,
        "previous_status": previous,
        **more,
    }


@pytest.mark.requirement("C5")
@pytest.mark.requirement("C18")
async def test_what_is_no_step_of_a_group_message_is_not_told(
    account: Account, shared_database: Database
) -> None:
    message = await account.group_message()
    await account.change(message, scheduled_at=TOMORROW.isoformat())
    assert shared_database.events(message["id"]) == ["created"]
    for _ in range(2):
        await account.change(message, status="cancelled")
    refused = await account.ask("PATCH", path_of(message), json={"status": "queued"})
    assert refused.status_code == 422
    assert shared_database.events(message["id"]) == ["created", "cancelled"]


@pytest.mark.requirement("C6")
async def test_other_changes_of_status_of_a_scheduled_message_are_not_told(
    account: Account, shared_database: Database
) -> None:
    steps = ("processing", "pending", "processing", "failed", "pending", "processing", "completed")
    message = await account.scheduled_message(*steps, "completed")
    assert shared_database.events(message["id"]) == ["created"]


@pytest.mark.requirement("C6")
@pytest.mark.requirement("C18")
async def test_another_time_is_told_with_what_is_new(
    account: Account, shared_database: Database
) -> None:
    message = await account.scheduled_message()
    await account.change(message, scheduled_at=message["scheduled_at"], timezone="UTC")
    assert shared_database.events(message["id"]) == ["created"]
    changes = {"timezone": "Europe/Vienna", **WEEKLY}
    await account.change(message, scheduled_at=LATER.isoformat(), **changes)
    assert told(shared_database, message) == {
        **envelope(account, message, "scheduled_message.updated"),
        **changes,
        "scheduled_at": LATER,
        "next_trigger_at": LATER,
        "changed_fields": ["is_recurring", "recurrence_rule", "scheduled_at", "timezone"],
    }


@pytest.mark.requirement("C6")
async def test_of_a_status_and_a_time_only_the_status_is_told(
    account: Account, shared_database: Database
) -> None:
    message = await account.scheduled_message()
    paused = await account.change(message, status="paused", scheduled_at=LATER.isoformat())
    assert datetime.fromisoformat(paused["scheduled_at"]) == LATER
    assert shared_database.events(message["id"]) == ["created", "paused"]


@pytest.mark.requirement("C5")
async def test_of_two_who_do_the_same_at_once_one_is_told(
    account: Account, shared_database: Database
) -> None:
    message = await account.group_message()
    with shared_database.locking("group_messages"):
        both = [asyncio.create_task(account.change(message, status="queued")) for _ in range(2)]
        await eventually(lambda: shared_database.held_up("group_messages") == 2)
    await asyncio.gather(*both)
    assert shared_database.events(message["id"]) == ["created", "queued"]
