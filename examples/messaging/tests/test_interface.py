"""How the interface answers: lists, strangers, and bodies that are not what they should be."""

from typing import Any
from uuid import uuid4

import pytest
from account import GROUP_MESSAGES, SCHEDULED_MESSAGES, TOMORROW, Account, path_of

UNKNOWN = str(uuid4())


async def test_who_does_not_say_who_they_are_is_not_answered(account: Account) -> None:
    for headers in ({}, {"X-User-Id": UNKNOWN}, {"X-User-Id": UNKNOWN, "X-Account-Id": "me"}):
        answer = await account.client.get(GROUP_MESSAGES, headers=headers)
        assert answer.status_code == 401


async def test_a_list_is_given_in_parts_the_newest_first(account: Account) -> None:
    messages = [(await account.group_message())["id"] for _ in range(3)]
    cancelled = await account.group_message("cancelled")
    part = await account.get("/group-messages?status=draft&limit=1&offset=1")
    assert [each["id"] for each in part.pop("items")] == [messages[1]]
    assert part == {"total": 3, "limit": 1, "offset": 1}
    assert (await account.get("/group-messages?status=cancelled"))["items"] == [cancelled]


@pytest.mark.parametrize("path", [GROUP_MESSAGES, SCHEDULED_MESSAGES])
async def test_another_account_sees_nothing_and_changes_nothing(
    account: Account, path: str
) -> None:
    body = await account.body(path)
    message, stranger = await account.post(path, **body), Account(account.client)
    assert (await stranger.get(path))["total"] == 0
    one = path_of(message)
    for method, changes in (("GET", None), ("PATCH", {"status": "cancelled"})):
        assert (await stranger.ask(method, one, json=changes)).status_code == 404
    assert await account.get(one) == message
    [problem] = (await stranger.ask("POST", path, json=body)).json()["detail"]
    assert problem["msg"] == f"there is no channel {body['channel_id']}"


@pytest.mark.parametrize(
    ("path", "wrong", "field"),
    [
        (GROUP_MESSAGES, {"channel_id": UNKNOWN}, "channel_id"),
        (GROUP_MESSAGES, {"contact_group_ids": [UNKNOWN]}, "contact_group_ids"),
        (GROUP_MESSAGES, {"body": None, "template_id": UNKNOWN}, "template_id"),
        (GROUP_MESSAGES, {"body": "a\0b"}, "body"),
        (GROUP_MESSAGES, {"scheduled_at": "9999-12-31T23:59:59-23:59"}, "scheduled_at"),
        (GROUP_MESSAGES, {"surprise": 1}, "surprise"),
        (SCHEDULED_MESSAGES, {"timezone": "Europe/Nowhere"}, "timezone"),
        (SCHEDULED_MESSAGES, {"scheduled_at": "2020-01-01T00:00:00Z"}, "scheduled_at"),
        (SCHEDULED_MESSAGES, {"recurrence_rule": "FREQ=DAILY"}, "is_recurring"),
        (SCHEDULED_MESSAGES, {"recurrence_end_at": TOMORROW.isoformat()}, "recurrence_end_at"),
    ],
)
async def test_what_is_wrong_with_a_body_is_told_by_the_name_of_its_field(
    account: Account, path: str, wrong: dict[str, Any], field: str
) -> None:
    answer = await account.ask("POST", path, json=await account.body(path, **wrong))
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"][0]["loc"] == ["body", field]
    assert (await account.get(path))["total"] == 0


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[]", b"[" * 100_000])
async def test_what_is_no_body_at_all_is_refused(account: Account, body: bytes) -> None:
    answer = await account.ask("POST", GROUP_MESSAGES, content=body)
    assert answer.status_code in (400, 422), answer.text


async def test_a_message_that_is_under_way_is_not_edited(account: Account) -> None:
    message = await account.group_message("queued")
    changes = {"scheduled_at": TOMORROW.isoformat()}
    answer = await account.ask("PATCH", path_of(message), json=changes)
    assert answer.json()["detail"][0]["msg"] == "a message that is queued is not edited any more"
    assert await account.get(path_of(message)) == message
