"""What is told of scheduled messages: new ones, stops and starts, and other times."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.examples.messaging.account import SOON, Account
from tests.examples.messaging.arrivals import Arrivals
from tests.examples.messaging.database import Database
from tests.support.broker import Broker
from tests.support.command import Command

LATER = SOON + timedelta(days=7)
WEEKLY = {"is_recurring": True, "recurrence_rule": "FREQ=WEEKLY;COUNT=9"}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.requirement("C6")
@pytest.mark.requirement("C18")
async def test_a_new_message_is_told_to_those_who_trigger_it(
    account: Account, broker: Broker, worker: Command
) -> None:
    message = await account.scheduled_message(timezone="Europe/Vienna", **WEEKLY)
    [told] = await Arrivals(broker, "scheduled_message_processing").of(message["id"], 1)
    payload = json.loads(told.body)
    assert moment(payload.pop("timestamp")).utcoffset() is not None
    assert moment(payload.pop("scheduled_at")) == SOON
    assert moment(payload.pop("next_trigger_at")) == SOON
    del payload["request_id"]
    assert payload == {
        "id": message["id"],
        "account_id": account.id,
        "channel_id": message["channel_id"],
        "template_id": message["template_id"],
        "send_type": "single",
        "status": "pending",
        "timezone": "Europe/Vienna",
        **WEEKLY,
        "event_type": "scheduled_message.created",
        "aggregate_type": "scheduled_message",
        "aggregate_id": message["id"],
        "user_id": account.user_id,
    }


@pytest.mark.requirement("C6")
@pytest.mark.parametrize(
    ("before", "status", "previous"),
    [
        ([], "cancelled", "pending"),
        (["paused"], "cancelled", "paused"),
        (["processing", "failed"], "cancelled", "failed"),
        ([], "paused", "pending"),
    ],
)
@pytest.mark.requirement("C18")
async def test_a_stop_is_told_with_the_status_before(
    account: Account, database: Database, before: list[str], status: str, previous: str
) -> None:
    message = await account.scheduled_message(*before, status)
    told = database.records(message["id"])[-1]
    assert told.event_type == f"scheduled_message.{status}"
    assert without_envelope(told.payload) == {
        "id": message["id"],
        "account_id": account.id,
        "status": status,
        "previous_status": previous,
    }


@pytest.mark.requirement("C6")
@pytest.mark.requirement("C18")
async def test_a_start_is_told_with_the_time_of_the_next_one(
    account: Account, arrivals: Arrivals
) -> None:
    message = await account.scheduled_message("paused", "pending")
    steps = [f"scheduled_message.{each}" for each in ("created", "paused", "resumed")]
    assert await arrivals.types(message["id"], 3) == steps
    told = json.loads(arrivals.now(message["id"])[-1].body)
    assert moment(told["next_trigger_at"]) == moment(message["next_trigger_at"]) == SOON
    assert (told["status"], told["previous_status"]) == ("pending", "paused")


@pytest.mark.requirement("C6")
async def test_other_changes_of_status_tell_nothing(account: Account, database: Database) -> None:
    message = await account.scheduled_message("processing", "pending")
    for status in ("processing", "failed", "pending", "processing", "completed", "completed"):
        await account.patch(f"/scheduled-messages/{message['id']}", status=status)
        assert database.events(message["id"]) == ["created"]


@pytest.mark.requirement("C6")
@pytest.mark.requirement("C18")
async def test_another_time_is_told_with_what_is_new(account: Account, database: Database) -> None:
    message = await account.scheduled_message()
    changes = {"timezone": "Europe/Vienna", "scheduled_at": LATER.isoformat(), **WEEKLY}
    await account.patch(f"/scheduled-messages/{message['id']}", **changes)
    told = without_envelope(database.records(message["id"])[-1].payload)
    assert moment(told.pop("scheduled_at")) == moment(told.pop("next_trigger_at")) == LATER
    assert told == {
        "id": message["id"],
        "account_id": account.id,
        "timezone": "Europe/Vienna",
        **WEEKLY,
        "changed_fields": ["is_recurring", "recurrence_rule", "scheduled_at", "timezone"],
    }
    assert database.events(message["id"]) == ["created", "updated"]


@pytest.mark.requirement("C6")
async def test_what_is_the_same_is_not_told_as_new(account: Account, database: Database) -> None:
    message = await account.scheduled_message(**WEEKLY)
    path = f"/scheduled-messages/{message['id']}"
    await account.patch(path, scheduled_at=message["scheduled_at"], timezone="UTC")
    assert database.events(message["id"]) == ["created"]
    end = (LATER + timedelta(days=300)).isoformat()
    await account.patch(path, scheduled_at=message["scheduled_at"], recurrence_end_at=end)
    assert database.records(message["id"])[-1].payload["changed_fields"] == ["recurrence_end_at"]


@pytest.mark.requirement("C6")
async def test_of_a_status_and_a_time_only_the_status_is_told(
    account: Account, database: Database
) -> None:
    message = await account.scheduled_message()
    path = f"/scheduled-messages/{message['id']}"
    paused = await account.patch(path, status="paused", scheduled_at=LATER.isoformat())
    assert (paused["status"], moment(paused["scheduled_at"])) == ("paused", LATER)
    assert database.events(message["id"]) == ["created", "paused"]
    await account.patch(path, status="paused", scheduled_at=SOON.isoformat())
    assert database.events(message["id"]) == ["created", "paused", "updated"]


async def test_a_time_without_an_offset_is_that_of_the_zone(account: Account) -> None:
    day = f"{SOON.year + 1}-07-01"
    message = await account.scheduled_message(
        scheduled_at=f"{day}T09:00:00", timezone="Europe/Vienna"
    )
    assert message["scheduled_at"] == message["next_trigger_at"] == f"{day}T07:00:00Z"


def without_envelope(payload: dict[str, Any]) -> dict[str, Any]:
    """Give what the event itself says."""
    envelope = {"event_type", "aggregate_type", "aggregate_id", "timestamp"}
    return {k: v for k, v in payload.items() if k not in envelope | {"user_id", "request_id"}}
