"""A request saves the message and its events; what is delivered is what was committed."""

from collections.abc import Awaitable, Callable

import pytest
from account import SCHEDULED_MESSAGES, Account, path_of
from postroom import OutageError
from postroom.testing import RecordingPublisher

Deliver = Callable[[], Awaitable[object]]


async def test_each_step_of_a_message_is_published_in_order(
    account: Account, delivered: Deliver, publisher: RecordingPublisher
) -> None:
    message = await account.group_message("queued", "cancelled")
    await delivered()
    types = [each.event_type for each in publisher.messages if each.aggregate_id == message["id"]]
    assert types == ["group_message.created", "group_message.queued", "group_message.cancelled"]
    cancelled = publisher.assert_published("group_message.cancelled", id=message["id"])
    assert cancelled.payload["previous_status"] == "queued"
    assert cancelled.payload["user_id"] == str(account.user_id)


async def test_a_request_that_is_refused_publishes_nothing(
    account: Account, delivered: Deliver, publisher: RecordingPublisher
) -> None:
    message = await account.group_message("cancelled")
    answer = await account.ask("PATCH", path_of(message), json={"status": "queued"})
    assert answer.status_code == 422
    await delivered()
    publisher.assert_not_published("group_message.queued", id=message["id"])


async def test_a_hostile_recurrence_rule_is_refused_with_its_field(account: Account) -> None:
    rule = "FREQ=DAILY;BYSETPOS=" + ",".join(map(str, range(300, 345)))
    body = await account.body(SCHEDULED_MESSAGES, is_recurring=True, recurrence_rule=rule)
    answer = await account.ask("POST", SCHEDULED_MESSAGES, json=body)
    assert answer.status_code == 422
    [problem] = answer.json()["detail"]
    assert problem["loc"] == ["body", "recurrence_rule"]
    assert "BYSETPOS is for WEEKLY, MONTHLY and YEARLY" in problem["msg"]


async def test_an_outage_of_the_broker_fails_no_record(
    account: Account, delivered: Deliver, publisher: RecordingPublisher
) -> None:
    message = await account.group_message()
    publisher.outage = "stopped by the test"
    with pytest.raises(OutageError):
        await delivered()
    publisher.assert_not_published("group_message.created", id=message["id"])
    publisher.outage = None
    await delivered()
    publisher.assert_published("group_message.created", id=message["id"])
