"""How the interface answers: lists, strangers, and whatever is not what it takes."""

import json
from typing import Any

import pytest

from tests.examples.messaging.account import SOON, Account, new_id
from tests.support.page import files_of_page

PATHS = ["/group-messages", "/scheduled-messages", "/channels", "/templates", "/contact-groups"]
UNKNOWN = "00000000-0000-4000-8000-000000000000"
TEXTS = {"NUL": "a\0b", "half a pair": "\ud800", "nothing": "", "a novel": "x" * 10_001}


@pytest.mark.parametrize("path", PATHS)
async def test_who_says_nothing_of_himself_is_not_answered(account: Account, path: str) -> None:
    for headers in ({}, {"X-User-Id": new_id()}, {**account.headers, "X-Account-Id": "me"}):
        answer = await account.client.get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.json()["detail"].startswith("say who you are")


async def test_a_list_is_given_in_parts_the_newest_first(account: Account) -> None:
    messages = [(await account.group_message())["id"] for _ in range(3)]
    whole = await account.get("/group-messages")
    assert [each["id"] for each in whole.pop("items")] == messages[::-1]
    assert whole == {"total": 3, "limit": 50, "offset": 0}
    part = await account.get("/group-messages", limit=1, offset=1)
    assert [each["id"] for each in part.pop("items")] == [messages[1]]
    assert part == {"total": 3, "limit": 1, "offset": 1}


async def test_a_list_can_be_of_one_status(account: Account) -> None:
    queued, _ = await account.group_message("queued"), await account.group_message()
    paused, _ = await account.scheduled_message("paused"), await account.scheduled_message()
    for path, message in (("/group-messages", queued), ("/scheduled-messages", paused)):
        some = await account.get(path, status=message["status"])
        assert (some["items"], some["total"]) == ([message], 1)
        assert await account.get(path, status="failed") == {**some, "items": [], "total": 0}


@pytest.mark.parametrize("path", ["/group-messages", "/scheduled-messages"])
async def test_another_account_sees_nothing_and_changes_nothing(
    account: Account, path: str
) -> None:
    message = (
        await account.group_message() if "group" in path else await account.scheduled_message()
    )
    stranger, one = Account(account.client), f"{path}/{message['id']}"
    assert (await stranger.get(path))["total"] == 0
    for method, body in (("GET", None), ("PATCH", {"status": "cancelled"})):
        answer = await stranger.ask(method, one, json=body)
        assert answer.status_code == 404
        assert message["id"] in answer.json()["detail"]
    assert await account.get(one) == message


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_a_text_that_cannot_be_stored_is_refused(account: Account, text: str) -> None:
    body = await account.group_message_body() | {"body": text}
    assert (
        await account.ask("POST", "/group-messages", content=ascii_json(body))
    ).status_code == 422
    name = {"name": text, "kind": "sms"}
    assert (await account.ask("POST", "/channels", content=ascii_json(name))).status_code == 422


@pytest.mark.parametrize(
    "wrong",
    [
        {"channel_id": 7},
        {"channel_id": None},
        {"contact_group_ids": []},
        {"contact_group_ids": "all"},
        {"contact_group_ids": [UNKNOWN] * 101},
        {"scheduled_at": 10**400},
        {"scheduled_at": 1e308},
        {"scheduled_at": "9999-12-31T23:59:59-23:59"},
        {"scheduled_at": "tomorrow"},
        {"body": None},
        {"template_id": UNKNOWN},
        {"surprise": 1},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_a_body_that_is_not_what_it_should_be_is_refused(
    account: Account, wrong: dict[str, Any]
) -> None:
    body = await account.group_message_body() | wrong
    answer = await account.ask("POST", "/group-messages", content=ascii_json(body))
    assert answer.status_code == 422, answer.text
    assert (await account.get("/group-messages"))["total"] == 0


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"timezone": "Europe/Nowhere"}, "timezone"),
        ({"scheduled_at": "2020-01-01T00:00:00Z"}, "scheduled_at"),
        ({"recurrence_rule": "FREQ=DAILY"}, "is_recurring"),
        ({"is_recurring": True}, "is_recurring"),
        ({"recurrence_rule": "every day", "is_recurring": True}, "recurrence_rule"),
        ({"recurrence_rule": "FREQ=YEARLY;BYYEARDAY=367", "is_recurring": True}, "recurrence_rule"),
        ({"recurrence_end_at": SOON.isoformat()}, "recurrence_end_at"),
        ({"channel_id": UNKNOWN}, "channel_id"),
    ],
)
async def test_a_schedule_that_cannot_be_is_refused_by_the_name_of_its_field(
    account: Account, wrong: dict[str, Any], field: str
) -> None:
    body = await account.scheduled_message_body() | wrong
    problem = await account.refused("POST", "/scheduled-messages", **body)
    assert problem["loc"] == ["body", field]
    message = await account.scheduled_message()
    if field != "channel_id":
        path = f"/scheduled-messages/{message['id']}"
        problem = await account.refused("PATCH", path, **wrong)
        assert problem["loc"] == ["body", field]
        assert await account.get(path) == message


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=101", "offset=-1", f"offset={10**30}", "status=x"]
)
async def test_a_list_is_asked_for_in_numbers_that_there_are(account: Account, query: str) -> None:
    assert (await account.ask("GET", f"/group-messages?{query}")).status_code == 422


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[]", b"[" * 100_000, b'{"channel_id": %s}' % (b"1" * 5_000)]
)
async def test_what_is_no_body_at_all_is_refused(account: Account, body: bytes) -> None:
    answer = await account.ask("POST", "/group-messages", content=body)
    assert answer.status_code in (400, 422), answer.text


async def test_swagger_ui_needs_no_other_host(account: Account) -> None:
    assert await files_of_page(account.client, "/docs") == {
        "/openapi.json",
        "/static-offline-docs/favicon.png",
        "/static-offline-docs/swagger-ui-bundle.js",
        "/static-offline-docs/swagger-ui.css",
    }


def ascii_json(body: object) -> str:
    """Write what httpx would not: half a surrogate pair, as its escape."""
    return json.dumps(body)
