"""What is told of group messages: that they are there, and each step they take."""

import asyncio
import json
from datetime import datetime
from uuid import UUID

import pytest

from tests.examples.messaging.account import SOON, Account
from tests.examples.messaging.arrivals import Arrivals
from tests.examples.messaging.database import Database
from tests.support.broker import Broker
from tests.support.command import Command
from tests.support.waiting import eventually

STEPS = [
    ("draft", "queued"),
    ("draft", "cancelled"),
    ("queued", "processing"),
    ("queued", "cancelled"),
    ("processing", "completed"),
    ("processing", "failed"),
    ("failed", "queued"),
    ("failed", "cancelled"),
]
WAY_TO = {
    "draft": [],
    "queued": ["queued"],
    "processing": ["queued", "processing"],
    "failed": ["queued", "processing", "failed"],
}


@pytest.mark.requirement("C5")
@pytest.mark.requirement("C9")
@pytest.mark.requirement("C18")
async def test_a_new_message_is_told_to_those_who_process_it(
    account: Account, broker: Broker, worker: Command, database: Database
) -> None:
    channel, template = await account.channel(), await account.template()
    groups = [await account.group("ann", "bob"), await account.group("bob", "cleo")]
    body = {"channel_id": channel, "template_id": template, "contact_group_ids": groups}
    answer = await account.ask(
        "POST",
        "/group-messages",
        json={**body, "scheduled_at": "2030-03-31T12:00:00+02:00"},
        headers={"X-Request-Id": "request 7"},
    )
    message_id = answer.json()["id"]

    [told] = await Arrivals(broker, "group_message_processing").of(message_id, 1)
    payload = json.loads(told.body)
    assert datetime.fromisoformat(payload.pop("timestamp")).utcoffset() is not None
    assert payload == {
        "id": message_id,
        "account_id": account.id,
        "channel_id": channel,
        "template_id": template,
        "status": "draft",
        "contact_group_ids": groups,
        "total_recipients": 3,
        "scheduled_at": "2030-03-31T10:00:00Z",
        "event_type": "group_message.created",
        "aggregate_type": "group_message",
        "aggregate_id": message_id,
        "user_id": account.user_id,
        "request_id": "request 7",
    }
    [[record_id]] = database.rows("SELECT id FROM outbox_events WHERE aggregate_id=%s", message_id)
    assert (told.exchange, told.routing_key) == ("messaging", "group_message.created")
    assert (told.content_type, told.delivery_mode) == ("application/json", 2)
    assert told.message_id == str(record_id)
    assert told.headers["aggregate_type"] == "group_message"
    assert told.headers["event_type"] == "group_message.created"
    assert datetime.fromisoformat(told.headers["created_at"]).utcoffset() is not None


@pytest.mark.requirement("C5")
@pytest.mark.parametrize(("previous", "status"), STEPS)
@pytest.mark.requirement("C18")
async def test_each_step_is_told_with_the_one_before(
    account: Account, database: Database, previous: str, status: str
) -> None:
    message = await account.group_message(*WAY_TO[previous], status)
    told = database.records(message["id"])[-1]
    assert message["status"] == status
    assert told.event_type == f"group_message.{status}"
    request_id = told.payload.pop("request_id")
    assert request_id == str(UUID(request_id))
    told.payload.pop("timestamp")
    assert told.payload == {
        "id": message["id"],
        "account_id": account.id,
        "status": status,
        "previous_status": previous,
        "event_type": f"group_message.{status}",
        "aggregate_type": "group_message",
        "aggregate_id": message["id"],
        "user_id": account.user_id,
    }


@pytest.mark.requirement("C5")
async def test_the_same_status_again_tells_nothing(account: Account, database: Database) -> None:
    message = await account.group_message("queued")
    again = await account.patch(f"/group-messages/{message['id']}", status="queued")
    assert again["status"] == "queued"
    assert database.events(message["id"]) == ["created", "queued"]


@pytest.mark.requirement("C5")
@pytest.mark.requirement("C18")
async def test_a_change_of_all_but_the_status_tells_nothing(
    account: Account, database: Database
) -> None:
    message = await account.group_message()
    groups = [await account.group("dora")]
    changes = {"contact_group_ids": groups, "scheduled_at": SOON.isoformat()}
    changed = await account.patch(f"/group-messages/{message['id']}", **changes)
    assert (changed["contact_group_ids"], changed["total_recipients"]) == (groups, 1)
    assert datetime.fromisoformat(changed["scheduled_at"]) == SOON
    assert database.events(message["id"]) == ["created"]
    cleared = await account.patch(f"/group-messages/{message['id']}", scheduled_at=None)
    assert cleared["scheduled_at"] is None


@pytest.mark.requirement("C5")
async def test_a_step_that_cannot_be_is_refused_with_the_reason(
    account: Account, database: Database
) -> None:
    message = await account.group_message("cancelled")
    path = f"/group-messages/{message['id']}"
    problem = await account.refused("PATCH", path, status="queued")
    assert problem["loc"] == ["body", "status"]
    assert problem["msg"] == "a message that is cancelled cannot become queued: cancelled is final"
    assert (await account.get(path))["status"] == "cancelled"
    assert database.events(message["id"]) == ["created", "cancelled"]


@pytest.mark.requirement("C5")
async def test_of_two_who_do_the_same_at_once_one_is_told(
    account: Account, database: Database
) -> None:
    message = await account.group_message()
    path = f"/group-messages/{message['id']}"
    with database.locking("group_messages"):
        both = [asyncio.create_task(account.patch(path, status="queued")) for _ in range(2)]
        await eventually(lambda: len(database.held_up("group_messages")) == 2)
    await asyncio.gather(*both)
    assert database.events(message["id"]) == ["created", "queued"]


async def test_what_is_under_way_is_not_edited(account: Account, database: Database) -> None:
    message = await account.group_message("queued")
    path, groups = f"/group-messages/{message['id']}", [await account.group("dora")]
    problem = await account.refused("PATCH", path, contact_group_ids=groups)
    assert problem["msg"] == "a message that is queued is not edited any more"
    assert (await account.get(path)) == message


@pytest.mark.requirement("C16")
async def test_what_happens_to_a_message_arrives_in_its_order(
    account: Account, arrivals: Arrivals
) -> None:
    message = await account.group_message("queued", "processing", "completed")
    steps = [f"group_message.{each}" for each in ("created", "queued", "processing", "completed")]
    assert await arrivals.types(message["id"], 4) == steps
